// Normalizers of a tokenizer.json: changes of a text before it is split into words.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

class Normalizer {
 public:
  /// Adds a normalizer of the file: null, NFC, Prepend, Replace of plain text, or a Sequence of these. Returns its
  /// problem for another one, or if the file has many steps or could make a text very long; empty if it has none.
  std::string add(const nlohmann::json& normalizer);

  bool changes_text() const { return !steps_.empty(); }
  /// Returns whether no blank is left.
  bool replaces_blanks() const;
  /// Normalises valid UTF-8.
  std::string apply(std::string_view text) const;

 private:
  struct Step {
    enum class Kind { nfc, prepend, replace } kind;
    std::string from, to;  // prepend: `to`
  };
  std::string push(Step step);

  std::vector<Step> steps_;
  double growth_ = 1;  // most bytes of a text of one byte
};

/// Returns `text` with each `from`, which is not empty, replaced by `to`.
std::string replace_each(std::string_view text, std::string_view from, std::string_view to);

/// Returns the text at a key of an object; empty if there is none.
std::string text_at(const nlohmann::json& object, const char* key);
/// Returns the flag at a key of an object, or `absent` if there is none.
bool flag_at(const nlohmann::json& object, const char* key, bool absent);
/// Returns a type's name from the file for an error, at most 40 bytes of it.
std::string shown_type(const nlohmann::json& part);

}  // namespace llmc
