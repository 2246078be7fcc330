// Prints floating-point values as C++ literals.
#pragma once

#include <string>

namespace llmc::emit {

/// Returns the shortest literal of that type that reads back as the same bits. The value must be finite.
std::string literal_text(float value);
std::string literal_text(double value);

}  // namespace llmc::emit
