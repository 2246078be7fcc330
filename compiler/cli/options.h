// What every command line of llmc shares: where output goes, how errors look, how a spec is loaded.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/build/toolchain.h"
#include "compiler/emit/project.h"
#include "compiler/plan/plan.h"
#include "compiler/spec/load.h"
#include "error.h"

namespace llmc::cli {

/// A spec file and the key.path=value words after it.
struct SpecArguments {
  std::string file;
  std::vector<std::string> overrides;
};

/// A spec that does not load: what() holds every diagnostic, rendered, and is printed as it is.
class InvalidSpec : public Failure {
 public:
  explicit InvalidSpec(const std::string& diagnostics) : Failure(Exit::spec, diagnostics) {}
};

/// True where ANSI colours may be written: a terminal, and NO_COLOR not set.
bool colour_on(int file_descriptor);

inline constexpr double kMostPrice = 1e6;  // of a device-hour

/// The spec or its errors, whose suggestions llmc could plan.
spec::LoadResult read_spec(const SpecArguments& arguments);

/// A spec whose target.device, where that is a file, can be opened from here. `directory`: the spec's.
spec::Spec from_here(spec::Spec spec, const std::filesystem::path& directory);

/// Throws InvalidSpec. Prints the spec's notes where `tell`.
spec::Resolved load_spec(const SpecArguments& arguments, bool tell = true);

/// Throws Failure(usage) where a spec that is to be compiled is no file.
void refuse_pipe(const std::string& file);

/// Prints a note where the model's vocabulary is not that of the tokenizer, which need not be on this machine.
void note_vocabulary(const spec::Resolved& resolved);

/// Prints a warning where transformers will not load what `llmc checkpoint export` writes of the model.
void warn_of_shape(const spec::Model& model);

/// Resolved spec, its plan, and the texts that a trainer carries.
struct Planned {
  spec::Resolved resolved;
  plan::Plan plan;
  emit::ProgramTexts texts;
};
Planned plan_spec(const SpecArguments& arguments);

/// The same as a trainer that is built here has it: on a CPU, `target.arch: native` is this machine's name from the
/// start, so that kernels are chosen for it.
Planned plan_spec_here(const SpecArguments& arguments);

/// The first or, with `here`, the second, of a spec that is loaded.
Planned plan_loaded(spec::Resolved resolved, bool here);

/// build/<name> under the current directory, unless `wish` names a folder; build/<name>-run where CMake built something
/// of that name.
std::filesystem::path output_folder(const std::string& wish, const std::string& name);

emit::SourceTree source_tree(const build::Home& home);

}  // namespace llmc::cli
