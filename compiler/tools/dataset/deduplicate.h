// Finds documents that are equal to an earlier one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace llmc::data {

/// Knows documents by 128 bits of hash: two different ones in 10^12 collide with a probability below 10^-14. Takes
/// about 60 bytes of memory a document.
class SeenDocuments {
 public:
  /// Returns whether no equal document was added before.
  bool add(std::string_view text);

 private:
  struct Key {
    std::uint64_t low, high;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const { return key.low; }
  };
  std::unordered_set<Key, Hash> keys_;
};

}  // namespace llmc::data
