// Command lines as they are shown: words that a shell takes as they are meant.
#pragma once
#include <string>
#include <vector>

namespace llmc {

/// The word in quotes where a shell would read it otherwise.
std::string shell_word(const std::string& word);

/// The words, each as shell_word(), with blanks between.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace llmc
