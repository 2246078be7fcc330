// Collects changes to a text in any order and applies them at once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/emit/specialiser/analysis.h"

namespace llmc::emit {

class Edits {
 public:
  /// `text` must outlive the edits; errors call it `file`.
  Edits(const std::string& text, std::string file) : text_(text), file_(std::move(file)) {}

  void remove(TextRange range) { removals_.push_back(range); }
  void replace(TextRange range, std::string with) { replacements_.push_back({range, std::move(with)}); }
  void insert(std::size_t at, std::string what) { replacements_.push_back({{at, at}, std::move(what)}); }

  /// Whether the byte at this offset is removed.
  bool touches(std::size_t at) const;

  /// Returns the edited text. Removals may overlap each other and contain other changes; a repeated replacement counts
  /// once. Any other overlap throws Failure(internal) with file:line.
  std::string apply() const;

 private:
  struct Replacement {
    TextRange range;
    std::string with;
    bool operator==(const Replacement& other) const {
      return range.begin == other.range.begin && range.end == other.range.end && with == other.with;
    }
  };

  std::vector<TextRange> merged_removals() const;

  const std::string& text_;
  std::string file_;
  std::vector<TextRange> removals_;
  std::vector<Replacement> replacements_;
};

}  // namespace llmc::emit
