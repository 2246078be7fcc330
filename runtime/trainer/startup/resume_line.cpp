#include "trainer/startup/resume_line.h"

#include <unistd.h>

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
