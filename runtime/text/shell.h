// Quotes command lines, so that a shell reads the displayed text as intended.
#pragma once
#include <string>
#include <vector>

namespace llmc {

/// Quotes the argument if a shell would interpret it.
std::string shell_word(const std::string& word);

/// Joins the arguments, each as shell_word(), with blanks.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace llmc
