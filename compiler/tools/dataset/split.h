// Which documents are validation: a pure function of their content, so that copies of one never stand on both sides.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::data {

/// Learns the documents in a first pass, then decides in a second.
class Split {
 public:
  /// `fraction` in [0, 1): the part of the documents that should be validation; 0: none.
  Split(double fraction, std::uint64_t seed) : fraction_(fraction), seed_(seed) {}

  /// Counts a document; true when its hash alone puts it on the validation side.
  bool add(std::string_view text);
  /// After the last add: when one side stayed empty, the document with the smallest hash goes to validation, or the one
  /// with the largest to training.
  void finish();
  /// True when all documents are equal (often there is only one): it is then cut in two, see `cut`.
  bool cuts() const { return fraction_ > 0 && documents_ > 0 && smallest_ == largest_; }

  bool is_validation(std::string_view text) const;
  /// Where to cut when cuts(): the last `fraction` of the text, from the line end before it (from a character boundary
  /// when there is no line end). Both parts hold at least one character when the text has two.
  std::size_t cut(std::string_view text) const;
  /// Depends on every document and their order; two passes must agree.
  std::uint64_t digest() const { return digest_; }

 private:
  std::uint64_t hash(std::string_view text) const;
  bool below_fraction(std::uint64_t hash) const;

  double fraction_;
  std::uint64_t seed_;
  std::int64_t documents_ = 0, validation_ = 0;
  std::uint64_t smallest_ = ~std::uint64_t{0}, largest_ = 0, digest_ = 0;
  bool force_smallest_ = false, force_largest_ = false;
};

}  // namespace llmc::data
