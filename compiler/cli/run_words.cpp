#include "compiler/cli/run_words.h"

#include <algorithm>

#include "compiler/cli/build.h"
#include "files/disk.h"
#include "run/run_folder.h"
#include "spec/schema/schema.h"
#include "trainer/startup/values.h"

namespace llmc::cli {

std::optional<std::string> absolute_path(const std::string& path, const spec::Resolved& resolved) {
  const spec::Key* const key = spec::key_of(path);
  const std::string value = key && key->is_path ? spec::path_at(path, resolved.spec) : "";
  if (value.empty() || !spec::holds_path(*key, value)) return std::nullopt;
  return (disk::canonical_if_known(resolved.directory) / value).lexically_normal().string();
}

RunWords sort_words(const SpecArguments& arguments, std::span<const spec::Resolved> phases) {
  const spec::Resolved& resolved = phases.front();
  const bool has_auto = std::ranges::any_of(phases, [](const spec::Resolved& phase) {
    return phase.spec.batch.micro_batch == 0 || phase.spec.parallel.shard_automatic;
  });
  RunWords words;
  for (const std::string& word : arguments.overrides) {
    const std::string path = word.substr(0, word.find('='));
    const spec::Key* key = spec::key_of(path);
    const bool decides = path == "batch.tokens" && (has_auto || resolved.spec.phase.count > 1);
    words.all.push_back(word);
    if (const std::optional<std::string> absolute = absolute_path(path, resolved))
      words.all.back() = path + "=" + *absolute;
    // Borders of phases are steps.
    const bool length = path == "schedule.steps" || path == "schedule.tokens";
    const bool fixed = length && resolved.spec.phase.count > 1;
    if (!key || key->stage != spec::Stage::run_time || decides || fixed) words.compiled.push_back(word);
    if (key && key->stage == spec::Stage::run_time && !fixed) words.run_time.push_back(words.all.back());
  }
  return words;
}

bool check_trainer_words(const Planned& planned, std::vector<std::string> words,
                         const std::vector<std::string>& command) {
  const spec::Spec& spec = planned.plan.spec;
  ProgramInfo info{};
  info.name = spec.name.c_str();
  info.fingerprint = planned.plan.fingerprint.c_str();
  info.spec_yaml = planned.texts.spec_yaml.c_str();
  info.vocab_size = spec.model.vocab_size;
  info.sequence_length = spec.batch.sequence_length;
  info.micro_batch = planned.plan.choice.micro_batch;
  const std::string arch =
      spec.target.kind == spec::TargetKind::cuda ? emit::arch_list(spec) : build::resolve_cpu_arch(spec.target.arch[0]);
  info.arch = arch.c_str();
  std::vector<std::int64_t> ends = spec.phase.borders;
  ends.push_back(spec.phase.steps);
  words.insert(words.begin(), "llmc run SPEC --");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const auto beside_the_spec = [&] { return disk::canonical(planned.resolved.directory, Exit::usage); };
  auto options = parse_options(static_cast<int>(argv.size()), argv.data(), info, beside_the_spec);
  if (!options || options->plan) return options.has_value();
  options->command = command;
  refuse_planned_only(spec);
  // The folder may be in another phase, which its trainer finds; data and values are checked as those of a new run.
  if (spec.phase.count > 1) {
    if (spec.phase.number == 1 && !RunFolder::holds_run(options->run)) {
      info.phase = {1, spec.phase.count, ends, spec.phase.trainers, {}};
      info.phases_json = planned.texts.phases_json.c_str();
    }
    options->run /= ".phase";
  }
  if (!options->tune && !options->evaluate && !options->sample)
    check_start(*options, info, build::spec_file(planned.resolved));
  return true;
}

}  // namespace llmc::cli
