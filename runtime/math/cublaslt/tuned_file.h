// The algorithms and the attention's backward pass that `trainer tune` has found, by device, library version and shape.
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
/// "portable_ms"}]}, sorted. "workspace": the bytes that the algorithm needs. An algorithm is cuBLASLt's 64 bytes in
/// hexadecimal, which the same version of the library takes back (cublasLtMatmulAlgo_t in its manual). "backward":
/// cudnn or portable. Where NVML is there, an entry has what it says of the card while it was timed: "sm_mhz", "watts",
/// "throttled".
class TunedFile {
 public:
  struct Entry {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace_bytes;
    int candidates;
    float first_ms, best_ms;
    std::optional<CardState> card = {};  // while it was timed
  };
  /// Times of a layer and micro-batch, and the way to take.
  struct Backward {
    AttentionBy by;
    float cudnn_ms, portable_ms;
    std::optional<CardState> card = {};
    float ms(AttentionBy way) const { return way == AttentionBy::cudnn ? cudnn_ms : portable_ms; }
  };

  TunedFile() = default;
  /// No file: no entries. Throws Failure(toolchain) for one that is damaged, or of something else.
  static TunedFile read(const std::filesystem::path& file);

  /// The algorithm for this product here. Throws Failure(toolchain) where the library refuses what the file says, or
  /// where that needs more workspace than the trainer has.
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
