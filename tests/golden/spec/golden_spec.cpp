// Invalid specs and their exact messages: NN-name.yaml with NN-name.expected. `--update` writes the expected files.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/spec/codes.h"
#include "compiler/spec/load.h"

namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Lines "# override: key=value" at the top of a case.
std::vector<std::string> overrides_of(const std::string& text) {
  const std::string mark = "# override: ";
  std::vector<std::string> overrides;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line.compare(0, mark.size(), mark) == 0;)
    overrides.push_back(line.substr(mark.size()));
  return overrides;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: golden_spec FOLDER [--update]\n";
    return 2;
  }
  const bool update = (argc > 2 && std::string(argv[2]) == "--update") || std::getenv("LLMC_UPDATE_GOLDEN");
  fs::current_path(argv[1]);  // so that messages contain file names without folders
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator("."))
    if (entry.path().extension() == ".yaml") cases.push_back(entry.path().filename());
  std::sort(cases.begin(), cases.end());
  int failures = 0;
  for (const fs::path& path : cases) {
    const llmc::spec::LoadResult result = llmc::spec::load(path.string(), overrides_of(read(path)));
    std::string text = llmc::spec::render(result.diagnostics);
    if (result.resolved) text = "no error\n";
    for (const auto& diagnostic : result.diagnostics)
      if (!llmc::spec::explain(diagnostic.code)) text += "no explanation of " + diagnostic.code + "\n";
    const fs::path expected = fs::path(path).replace_extension(".expected");
    if (update) {
      std::ofstream(expected, std::ios::binary) << text;
    } else if (text != read(expected)) {
      ++failures;
      std::cerr << "--- " << path.string() << " gives\n"
                << text << "--- but " << expected.string() << " says\n"
                << read(expected);
    }
    if (result.resolved) {
      ++failures;
      std::cerr << path.string() << " has no error\n";
    }
  }
  std::cout << cases.size() << " bad specs, " << failures << " failures\n";
  return failures == 0 && cases.size() >= 60 ? 0 : 1;
}
