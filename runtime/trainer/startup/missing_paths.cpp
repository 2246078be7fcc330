#include "trainer/startup/missing_paths.h"

#include "data/glob.h"
#include "data/glob_hint.h"
#include "error.h"
#include "spec/training_sources.h"
#include "spec/validation_sets.h"

namespace llmc {

namespace fs = std::filesystem;

std::vector<MissingPath> missing_paths(const spec::Spec& spec, const fs::path& directory) {
  const bool samples = !spec.sampling.prompts.empty() && spec.sampling.every > 0;
  const bool evaluates = spec.evaluation.every > 0;
  const std::vector<spec::ValidationSet> sets = spec::validation_sets(spec.data);
  std::vector<MissingPath> missing;
  const auto look = [&](const std::string& key, const std::string& written, bool pattern) {
    if (written.empty()) return;
    const fs::path path = (directory / written).lexically_normal();
    std::error_code error;
    bool found = pattern || fs::is_regular_file(path, error);
    try {
      if (pattern) found = !glob_files(path.string(), Unmatched::none).empty();
    } catch (const Failure&) {
      found = false;
    }
    if (!found) missing.push_back({key, path, pattern ? glob_hint(path.string()) : tokenizer_hint(path)});
  };
  const bool decodes = samples || spec.guards.log_text || (evaluates && !sets.empty());
  look("data.tokenizer", decodes ? spec.data.tokenizer : "", false);
  for (const spec::MixedSource& source : spec::training_sources(spec.data))
    look(spec::training_key(source.name), source.source.path, true);
  for (const spec::Task& task : spec.evaluation.tasks)
    look("evaluation.tasks." + task.name, evaluates && !sets.empty() ? task.path : "", false);
  for (const spec::ValidationSet& set : sets) look(set.key(), evaluates ? set.source.path : "", true);
  return missing;
}

}  // namespace llmc
