// Checks of options' values that CLI11 does not have.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

namespace llmc {

/// A finite number from `low`, or above it, to `high`: NaN, which CLI11's ranges let through, is none.
inline CLI::Validator finite(double low, bool above, double high) {
  const std::string wanted = fmt::format("{} {} and at most {}", above ? "above" : "of at least", low, high);
  return {[low, above, high, wanted](std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            const bool good = !text.empty() && *end == '\0' && (above ? value > low : value >= low) && value <= high;
            return good ? "" : fmt::format("'{}' is not a number {}", text, wanted);
          },
          ""};
}
inline CLI::Validator finite_from(double low, double high) { return finite(low, false, high); }
inline CLI::Validator finite_above(double low, double high) { return finite(low, true, high); }

/// What a script may have left empty.
inline CLI::Validator not_empty() {
  return {[](std::string& text) { return text.empty() ? std::string("is empty; give it a value") : std::string(); },
          ""};
}

}  // namespace llmc
