#include "compiler/emit/specialiser/literal.h"

#include <charconv>

namespace llmc::emit {
namespace {

template <class T>
std::string shortest(T value) {
  char digits[40];
  std::string text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string literal_text(float value) { return shortest(value) + "f"; }
std::string literal_text(double value) { return shortest(value); }

}  // namespace llmc::emit
