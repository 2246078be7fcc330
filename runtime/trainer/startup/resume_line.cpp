#include "trainer/startup/resume_line.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>

#include "text/shell.h"

namespace llmc {

std::string resume_line(const std::vector<std::string>& argv, const std::filesystem::path& was,
                        const std::filesystem::path& spec) {
  // The process id distinguishes this run from a trainer started by one, which inherits the variable.
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
  constexpr std::array kOfTheStart = {"--resume", "--allow", "--profile", "--timeline", "--timeline-steps"};
  std::vector<std::string> kept = words_without(words, kOfTheStart);
  std::erase(kept, "--follow-spec");
  return kept;
}

std::vector<std::string> words_without(const std::vector<std::string>& words, std::span<const char* const> options) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (std::ranges::count(options, name) == 0)
      kept.push_back(words[i]);
    else if (name == words[i])
      ++i;  // and its value
  }
  return kept;
}

}  // namespace llmc
