#include "compiler/emit/specialiser/library.h"

#include <dlfcn.h>

#include "compiler/emit/specialiser/specialiser.h"
#include "error.h"
#include "host/executable.h"

namespace llmc::emit {

namespace fs = std::filesystem;

namespace {

/// Loaded once: next to llmc, where a prefix has it, or where this build made it, for programs elsewhere in the build.
const ClangTable& clang() {
  static const ClangTable& table = [&]() -> const ClangTable& {
    const fs::path folder = executable_folder();
    return load_clang({folder / kClangLibrary, folder.parent_path() / "lib" / "llmc" / kClangLibrary,
                       fs::path(LLMC_BUILD_DIRECTORY) / kClangLibrary});
  }();
  return table;
}

}  // namespace

const ClangTable& load_clang(const std::vector<fs::path>& files) {
  std::string tried;
  for (const fs::path& file : files) {
    if (void* library = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL))
      if (const void* table = dlsym(library, kClangTable)) return *static_cast<const ClangTable*>(table);
    const char* why = dlerror();
    tried += "\n  " + (why ? std::string(why) : file.string());
  }
  throw Failure(Exit::toolchain, std::string("cannot load ") + kClangLibrary +
                                     ", which specialises kernels and belongs next to llmc, or into lib/llmc of its "
                                     "prefix. Build or install llmc again. Tried:" +
                                     tried);
}

Analysis analyse(const SpecialiseInput& input) { return clang().analyse(input); }

std::string format(const std::string& text) { return clang().format(text); }

}  // namespace llmc::emit
