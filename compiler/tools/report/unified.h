// Prints the unified diff of two strings.
#pragma once

#include <string>

namespace llmc::report {

/// Returns the changed lines with `context` lines around them, as diff -u prints them; empty if the strings are equal.
std::string unified_diff(const std::string& before, const std::string& after, const std::string& before_name,
                         const std::string& after_name, int context = 2);

}  // namespace llmc::report
