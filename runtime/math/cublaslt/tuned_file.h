// The algorithms that `trainer tune` has found, by device, library version and shape.
#pragma once

#include <cublasLt.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "math/gemm.h"

namespace llmc {

class LtProduct;

/// One JSON document: {"format": "llmc-tuned-2", "entries": [{"device", "library", "product", "algorithm", "workspace",
/// "candidates", "first_ms", "best_ms"}]}, sorted; "workspace": the bytes that the algorithm needs. An algorithm is cuBLASLt's 64 bytes in hexadecimal, which the same
/// version of the library takes back (cublasLtMatmulAlgo_t in its manual).
class TunedFile {
 public:
  struct Entry {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace_bytes;
    int candidates;
    float first_ms, best_ms;
  };

  TunedFile() = default;
  /// No file: no entries. Throws Failure(toolchain) for one that is damaged, or of something else.
  static TunedFile read(const std::filesystem::path& file);

  /// The algorithm for this product here. Throws Failure(toolchain) where the library refuses what the file says, or
  /// where that needs more workspace than the trainer has.
  std::optional<cublasLtMatmulAlgo_t> find(const MathLibrary::Impl& library, const LtProduct& product) const;
  void put(const MathLibrary::Impl& library, const LtProduct& product, const Entry& entry);
  std::string text() const;

 private:
  static TunedFile parse(const std::string& text, const std::string& name);  // name: for messages
  struct Key {
    std::string device;
    std::size_t library;
    std::string product;
    auto operator<=>(const Key&) const = default;
  };
  static Key key(const MathLibrary::Impl& library, const LtProduct& product);

  std::string name_;
  std::map<Key, Entry> entries_;
};

}  // namespace llmc
