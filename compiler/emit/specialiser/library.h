// The library that contains Clang, and what the specialiser calls there. Clang's own libraries take longer to link than
// most commands of llmc run, so they are loaded by those that specialise or format.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/emit/specialiser/analysis.h"

namespace llmc::emit {

inline constexpr char kClangLibrary[] = "libllmc_clang.so", kClangTable[] = "llmc_clang_table";

/// Exported by the library as kClangTable. Functions throw as those of analysis.h and specialiser.h.
struct ClangTable {
  Analysis (*analyse)(const SpecialiseInput& input);
  std::string (*format)(const std::string& text);
};

/// Loads the library from the first of these files that is one, for the rest of the process. Throws Failure(toolchain)
/// that names all of them.
const ClangTable& load_clang(const std::vector<std::filesystem::path>& files);

}  // namespace llmc::emit
