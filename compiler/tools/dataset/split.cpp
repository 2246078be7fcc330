#include "compiler/tools/dataset/split.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include "text/utf8.h"

namespace llmc::data {

std::uint64_t Split::hash(std::string_view text) const { return XXH3_64bits_withSeed(text.data(), text.size(), seed_); }

bool Split::below_fraction(std::uint64_t hash) const {
  return std::ldexp(static_cast<double>(hash >> 11), -53) < fraction_;
}

bool Split::add(std::string_view text) {
  const std::uint64_t value = hash(text);
  const bool validation = below_fraction(value);
  ++documents_;
  validation_ += validation;
  smallest_ = std::min(smallest_, value);
  largest_ = std::max(largest_, value);
  digest_ = XXH3_64bits_withSeed(&value, sizeof(value), digest_);
  return validation;
}

void Split::finish() {
  force_smallest_ = fraction_ > 0 && validation_ == 0;
  force_largest_ = validation_ == documents_;
}

bool Split::is_validation(std::string_view text) const {
  const std::uint64_t value = hash(text);
  if (force_smallest_ && value == smallest_) return true;
  if (force_largest_ && value == largest_) return false;
  return below_fraction(value);
}

std::size_t Split::cut(std::string_view text) const {
  const auto wanted = static_cast<std::size_t>(static_cast<double>(text.size()) * (1 - fraction_));
  const std::size_t held_out = text.size() - wanted, line_end = text.substr(0, wanted).rfind('\n');
  if (line_end != std::string_view::npos && wanted - (line_end + 1) <= held_out) return line_end + 1;
  const std::size_t boundary = utf8_floor(text, wanted);
  return boundary > 0 ? boundary : utf8_length(text);
}

}  // namespace llmc::data
