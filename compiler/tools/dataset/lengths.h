// Counts the documents of token shards by their length.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "data/shards.h"

namespace llmc::data {

/// A histogram in powers of two. A document ends with its separator, which its length includes; one may extend over
/// several shards. Tokens after the last separator are no document.
class Lengths {
 public:
  static constexpr std::size_t kBuckets = 63;

  explicit Lengths(std::int32_t separator) : separator_(separator) {}

  /// Reads the next shards.
  void add(const TokenShards& shards);

  std::int64_t documents() const;
  std::int64_t longest() const { return longest_; }  // in tokens
  /// Documents of [2^i, 2^(i+1)) tokens for each i.
  const std::array<std::int64_t, kBuckets>& counts() const { return counts_; }

 private:
  std::int32_t separator_;
  std::int64_t unfinished_ = 0, longest_ = 0;  // unfinished: tokens since the last separator
  std::array<std::int64_t, kBuckets> counts_{};
};

/// Prints a line with a bar for each power of two from the first to the last with documents.
std::string lengths_text(const Lengths& lengths);
/// [{"from": 64, "to": 127, "documents": 3}, ...] of the same.
nlohmann::ordered_json lengths_json(const Lengths& lengths);

}  // namespace llmc::data
