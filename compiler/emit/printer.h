// Builds generated text from raw strings with $named$ variables; a variable without a value is an internal error.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "program/dtype.h"
#include "spec/spec.h"

namespace llmc::emit {

/// Replaces each $name$ in `text`. Throws Failure(internal) for a name without a value and for a lone $.
std::string fill(std::string_view text, const std::map<std::string, std::string, std::less<>>& values);

/// Returns "kQkvForward" for "qkv_forward".
std::string constant_name(std::string_view name);

/// Returns the C++ spelling of the enumerator, which can differ from the dtype's name.
const char* dtype_literal(DType type);

/// Joins the target's architectures, "80,90a": names from a closed list.
std::string arch_list(const spec::Spec& spec);

/// Lines of generated source, indented by the nesting of braces that the caller opens and closes.
class SourceWriter {
 public:
  using Values = std::map<std::string, std::string, std::less<>>;

  void line(std::string_view text, const Values& values = {});
  void blank() { text_ += '\n'; }
  /// Adds a line that ends in " {"; later lines are indented until close().
  void open(std::string_view text, const Values& values = {});
  void close(std::string_view text = "}");
  /// Adds "} else {": closes and opens.
  void middle(std::string_view text);
  /// Adds text unchanged.
  void raw(std::string_view text) { text_ += text; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int depth_ = 0;
};

}  // namespace llmc::emit
