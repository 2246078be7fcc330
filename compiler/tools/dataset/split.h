// Assigns documents to training or validation by a hash of their content, so that duplicates are on the same side.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::data {

/// Learns the documents in a first pass, then decides in a second.
class Split {
 public:
  /// `fraction` in [0, 1): the intended part of the documents for validation; 0: none.
  Split(double fraction, std::uint64_t seed) : fraction_(fraction), seed_(seed) {}

  /// Counts a document. Returns true if its hash alone puts it on the validation side.
  bool add(std::string_view text);
  /// Call after the last add(). If one side is empty, moves the document with the smallest hash to validation, or the
  /// one with the largest hash to training.
  void finish();
  /// Whether all documents are equal (often there is only one): it is then cut in two, see `cut`.
  bool cuts() const { return fraction_ > 0 && documents_ > 0 && smallest_ == largest_; }

  bool is_validation(std::string_view text) const;
  /// Returns the offset to cut at if cuts(): the last `fraction` of the text, from the line end before it if that at
  /// most doubles this part, else from a character boundary. Both parts hold at least one character if the text has
  /// two.
  std::size_t cut(std::string_view text) const;
  /// Returns a hash of every document and their order; both passes must agree.
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
