#include "train/command.h"

#include <unistd.h>

#include <cstdlib>

namespace llmc {

std::string shell_word(const std::string& word) {
  const bool plain = word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+") ==
                     std::string::npos;
  if (plain && !word.empty()) return word;
  std::string quoted = word;
  for (std::size_t at = 0; (at = quoted.find('\'', at)) != std::string::npos; at += 4) quoted.replace(at, 1, "'\\''");
  return "'" + quoted + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string resume_line(const std::vector<std::string>& argv, const std::filesystem::path& was,
                        const std::filesystem::path& spec) {
  // The id: a trainer that is started from within one is a run of its own.
  if (const char* noted = std::getenv(kResumeVariable)) {
    char* end = nullptr;
    if (std::strtol(noted, &end, 10) == getpid() && *end == ' ') {
      std::string line = end + 1;
      const std::string old = " " + shell_word(was.string()) + " ";
      if (const std::size_t at = line.find(old); at != std::string::npos && !was.empty())
        line.replace(at, old.size(), " " + shell_word(spec.string()) + " ");
      return line;
    }
  }
  return shell_line(words_to_go_on(argv));
}

std::vector<std::string> words_to_go_on(const std::vector<std::string>& words) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--resume" || word == "--allow")
      ++i;  // and its value
    else if (word != "--follow-spec" && !word.starts_with("--resume=") && !word.starts_with("--allow="))
      kept.push_back(word);
  }
  return kept;
}

}  // namespace llmc
