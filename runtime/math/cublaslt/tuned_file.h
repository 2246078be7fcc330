// Algorithms and the backward pass of attention found by `trainer tune`, by device, library version and shape.
#pragma once

#include <cublasLt.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "device/cuda/card.h"
#include "math/attention.h"
#include "math/gemm.h"

namespace llmc {

class LtProduct;

/// One JSON document: {"format": "llmc-tuned-4", "entries": [{"device", "library", "product", "algorithm", "workspace",
/// "candidates", "first_ms", "best_ms"}], "attention": [{"device", "library", "shape", "backward", "cudnn_ms",
/// "portable_ms"}]}, sorted. "workspace": bytes that the algorithm needs. "algorithm": cuBLASLt's 64 bytes in
/// hexadecimal, which the same version of the library accepts (see cublasLtMatmulAlgo_t in its manual). "backward":
/// cudnn or portable. With NVML an entry also has the card's state while it was timed: "sm_mhz", "watts", "throttled".
class TunedFile {
 public:
  struct Entry {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace_bytes;
    int candidates;
    float first_ms, best_ms;
    std::optional<CardState> card = {};  // while it was timed
  };
  /// Times per layer and micro-batch, and the variant to use.
  struct Backward {
    AttentionBy by;
    float cudnn_ms, portable_ms;
    std::optional<CardState> card = {};
    float ms(AttentionBy way) const { return way == AttentionBy::cudnn ? cudnn_ms : portable_ms; }
  };

  TunedFile() = default;
  /// A missing file gives no entries. Throws Failure(toolchain) if it is damaged or of another kind.
  static TunedFile read(const std::filesystem::path& file);

  /// Algorithm for this GEMM on this device. Throws Failure(toolchain) if the library refuses it, or it needs more
  /// workspace than the trainer has.
  std::optional<cublasLtMatmulAlgo_t> find(const MathLibrary::Impl& library, const LtProduct& product) const;
  void put(const MathLibrary::Impl& library, const LtProduct& product, const Entry& entry);
  std::optional<Backward> find(const MathLibrary::Impl& library, const AttentionShape& shape) const;
  void put(const MathLibrary::Impl& library, const AttentionShape& shape, const Backward& backward);
  std::string text() const;
  const std::string& name() const { return name_; }

 private:
  static TunedFile parse(const std::string& text, const std::string& name);  // name: for messages
  struct Key {
    std::string device;
    std::size_t library;
    std::string shape;
    auto operator<=>(const Key&) const = default;
  };
  static Key key(const MathLibrary::Impl& library, const LtProduct& product);
  static Key key(const MathLibrary::Impl& library, const AttentionShape& shape);

  std::string name_;
  std::map<Key, Entry> entries_;
  std::map<Key, Backward> attention_;
};

}  // namespace llmc
