#include "compiler/cli/specs.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/spec/huggingface.h"
#include "compiler/tools/report/plan_report.h"
#include "data/vocabulary.h"
#include "error.h"
#include "files/disk.h"
#include "spec/fingerprint.h"
#include "spec/huggingface/families.h"
#include "spec/model_config.h"
#include "spec/print.h"
#include "spec/source.h"
#include "spec/training_sources.h"
#include "text/message.h"
#include "text/printable.h"

namespace llmc::cli {

std::string take_phase(std::vector<std::string>& overrides) {
  static constexpr std::string_view kWord = "phase=";
  const auto found = std::ranges::find_if(overrides, [](const std::string& word) { return word.starts_with(kWord); });
  if (found == overrides.end()) return "";
  const std::string number = found->substr(kWord.size());
  overrides.erase(found);
  return number.empty() ? "''" : number;
}

void refuse_phase(const std::string& selected, const std::string& file, std::size_t phases) {
  throw Failure(Exit::usage,
                phases == 0 ? fmt::format("phase={} selects one of a spec's phases, and '{}' has none. Leave it out",
                                          spec::printable(selected), spec::printable(file))
                            : fmt::format("there is no phase {}. '{}' has phases 1 to {}", spec::printable(selected),
                                          spec::printable(file), phases));
}

spec::LoadResult read_spec(const SpecArguments& arguments) {
  const std::filesystem::path directory =
      spec::is_open_pipe(arguments.file) ? "" : std::filesystem::path(arguments.file).parent_path();
  std::vector<std::string> overrides = arguments.overrides;
  const std::string selected = take_phase(overrides);
  const auto accept = [&](const spec::Spec& spec) { return plan::planned_exit(from_here(spec, directory)); };
  spec::LoadResult result =
      arguments.piped ? spec::load_text(*arguments.piped, spec::kPipeName, overrides, spec::read_regular_file, accept)
                      : spec::load(arguments.file, overrides, accept);
  if (selected.empty() || !result.diagnostics.empty()) return result;
  for (spec::Resolved& phase : result.phases)
    if (std::to_string(phase.spec.phase.number) == selected) result.resolved = std::move(phase);
  if (!result.resolved || result.phases.empty()) refuse_phase(selected, arguments.file, result.phases.size());
  result.phases.clear();
  return result;
}

spec::Spec from_here(spec::Spec spec, const std::filesystem::path& directory) {
  if (spec::names_file(spec.target.device)) spec.target.device = (directory / spec.target.device).string();
  return spec;
}

spec::Resolved only(std::vector<spec::Resolved> phases, const SpecArguments& arguments) {
  if (phases.size() > 1)
    throw Failure(Exit::usage, fmt::format("'{}' has {} phases. Select one with phase=1, or another number",
                                           spec::printable(arguments.file), phases.size()));
  return std::move(phases.front());
}

spec::Resolved load_spec(const SpecArguments& arguments, bool tell) {
  return only(load_phases(arguments, tell), arguments);
}

std::vector<spec::Resolved> load_phases(const SpecArguments& arguments, bool tell) {
  spec::LoadResult result = read_spec(arguments);
  if (!result.diagnostics.empty()) throw InvalidSpec(spec::render(result.diagnostics, colour_on(2)));
  if (tell)
    for (const std::string& note : result.notes) to_stderr("note: {}\n", printable_text(note));
  if (result.resolved) result.phases.push_back(std::move(*result.resolved));
  return std::move(result.phases);
}

void refuse_pipe(const std::string& file) {
  if (file == spec::kPipeName || spec::is_open_pipe(file))
    throw Failure(Exit::usage,
                  "the spec comes through a pipe, but a trainer records the path of its spec. Write the spec to a "
                  "file; only check, config, plan, diff and emit take a pipe");
}

void Said::once(const std::string& line) {
  if (lines_.insert(line).second) to_stderr("{}\n", line);
}

void note_vocabulary(const spec::Resolved& resolved, Said& said) {
  const auto found = [&](const std::string& path) {
    return path.empty() ? std::filesystem::path()
                        : (std::filesystem::path(resolved.directory) / path).lexically_normal();
  };
  const std::string note = vocabulary_note(resolved.spec.model.vocab_size, found(resolved.spec.data.tokenizer),
                                           found(spec::training_sources(resolved.spec.data).front().source.path));
  if (!note.empty()) said.once(fmt::format("note: {}", printable_text(note)));
}

void warn_of_export(const spec::Model& model, Said& said) {
  if (const std::string why = spec::no_family(model); !why.empty())
    said.once(fmt::format("warning: {}. It trains, but checkpoint export refuses it", why));
  if (const std::string why = spec::not_loaded(model); !why.empty())
    said.once(fmt::format("warning: {}. To export it, write a hidden_size that is a multiple", why));
}

Planned plan_loaded(spec::Resolved resolved, bool here) {
  Planned planned{std::move(resolved), {}, {}};
  spec::Spec spec = planned.resolved.spec;
  if (here && spec.target.kind == spec::TargetKind::cpu)
    spec.target.arch = {build::resolve_cpu_arch(spec.target.arch.empty() ? "native" : spec.target.arch.front())};
  build::check_matmul(spec);
  planned.plan = plan::make_plan(from_here(std::move(spec), planned.resolved.directory));
  spec::Values values = spec::values_of(planned.resolved);
  values.spec = plan::chosen_spec(planned.plan);
  // Keeps `native`, because the run may resume on another machine; the trainer has the name that it resolved to.
  values.spec.target.arch = planned.resolved.spec.target.arch;
  values.spec.target.device = planned.resolved.spec.target.device;
  planned.plan.fingerprint = spec::fingerprint(values.spec);
  planned.texts.plan_text = report::plan_text(planned.plan);
  planned.texts.plan_json = report::plan_json(planned.plan).dump(2) + "\n";
  planned.texts.spec_yaml = spec::to_yaml(values);
  planned.texts.config_json = spec::config_json(planned.resolved.spec);
  return planned;
}

Planned plan_spec_here(const SpecArguments& arguments) { return plan_loaded(load_spec(arguments), true); }

std::filesystem::path output_folder(const std::string& wish, const std::string& name) {
  namespace fs = std::filesystem;
  if (!wish.empty()) return wish;
  const fs::path folder = fs::path("build") / name;
  // CMake's build folder, such as llmc's own, may hold another folder or program of this name.
  const auto there = [](const fs::path& path) { return disk::exists(path, Exit::usage); };
  const bool ours =
      there(folder / ".llmc-files") || there(folder / emit::kLockFile) || there(folder / "phase-1" / ".llmc-files");
  const bool taken = there("build/CMakeCache.txt") && there(folder) && !ours;
  return taken ? fs::path(folder.string() + "-run") : folder;
}

emit::SourceTree source_tree(const build::Home& home) { return {home.source / "templates", home.source / "runtime"}; }

}  // namespace llmc::cli
