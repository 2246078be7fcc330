// llmc scale: writes the spec of a large model with the rates that were found at a small one.
#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <set>

#include "compiler/cli/commands.h"
#include "compiler/cli/specs.h"
#include "compiler/tools/scale/rules.h"
#include "compiler/tools/scale/text.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "spec/diagnostics.h"
#include "spec/schema/schema.h"
#include "text/message.h"
#include "text/printable.h"
#include "text/shell.h"

namespace llmc::cli {

namespace fs = std::filesystem;

namespace {

const std::map<std::string, scale::Rule> kRules = {{"mup", scale::Rule::mup},
                                                   {"width", scale::Rule::width},
                                                   {"sqrt_batch", scale::Rule::sqrt_batch},
                                                   {"none", scale::Rule::none}};

struct ScaleOptions {
  SpecArguments small;
  std::string large, rule, out;
};

/// Path of the large spec for `extends`, relative to the new file.
std::string base_of(const ScaleOptions& options) {
  const fs::path folder = options.out.empty()
                              ? disk::working_folder(Exit::usage)
                              : disk::canonical(disk::absolute(options.out, Exit::usage).parent_path(), Exit::usage);
  return disk::canonical(options.large, Exit::usage).lexically_relative(folder).string();
}

/// A new spec: its text, and the changes in it.
struct Scaled {
  std::string text;
  std::vector<scale::Change> changes;
};

/// Writes the spec that gives `large` the target's values, and reads it back. A default that follows from other values
/// changes with them: it is written where it then is another than the target's.
Scaled scaled_spec(const scale::Target& target, const spec::Spec& large, const ScaleOptions& options,
                   const std::vector<std::string>& heading) {
  const std::string name = options.out.empty() ? "scaled.yaml" : options.out, base = base_of(options);
  std::set<std::string> written = scale::differing(target, large);
  std::erase_if(written, [](const std::string& path) { return !spec::find_key(path)->derivation.empty(); });
  while (true) {
    Scaled scaled{{}, scale::changes(target, large, written)};
    scaled.text = scale::as_yaml(scaled.changes, base, heading);
    const spec::LoadResult checked =
        spec::load_text(scaled.text, name, {}, [&](const std::string& path) { return spec::read_regular_file(path); });
    if (!checked.resolved)
      throw InvalidSpec(spec::render(checked.diagnostics, colour_on(2)) +
                        "note: nothing was written. Values of the small spec are carried over: give others after it, "
                        "as in llmc scale SPEC batch.tokens=512Ki --to BIG.yaml\n");
    const std::size_t before = written.size();
    written.merge(scale::differing(target, checked.resolved->spec));
    if (written.size() == before) return scaled;
  }
}

void write_scaled(const ScaleOptions& options) {
  refuse_pipe(options.large);
  if (!options.out.empty() && access(options.out.c_str(), F_OK) == 0)
    throw Failure(Exit::usage, printable(options.out) + " exists. Name another file with -o");
  const spec::Resolved small = load_spec(options.small);
  const std::vector<spec::Resolved> of_large = load_phases({options.large, {}});
  if (of_large.size() > 1)
    throw Failure(Exit::usage, fmt::format("--to takes a spec without phases, and '{}' has {}. Name a copy of it "
                                           "without `phases`",
                                           printable(options.large), of_large.size()));
  const spec::Resolved& large = of_large.front();
  const scale::Rule rule = kRules.at(options.rule);
  const scale::Target target = scale::target_of(small, large, rule);
  std::vector<std::string> command = {"llmc", "scale", options.small.file};
  command.insert(command.end(), options.small.overrides.begin(), options.small.overrides.end());
  command.insert(command.end(), {"--to", options.large, "--rule", options.rule});
  std::vector<std::string> heading = {fmt::format("Written by {}", shell_line(command))};
  if (rule == scale::Rule::mup || rule == scale::Rule::width)
    heading.push_back(fmt::format("m = {} / {}, the ratio of hidden_size", large.spec.model.hidden_size,
                                  small.spec.model.hidden_size));
  if (rule != scale::Rule::none) heading.push_back(scale::source(rule));
  const auto [text, changes] = scaled_spec(target, large.spec, options, heading);
  for (const std::string& warning : scale::warnings(small.spec, large.spec, target, rule))
    to_stderr("warning: {}\n", warning);
  if (options.out.empty()) {
    fmt::print("{}", text);
    return;
  }
  for (const scale::Change& change : changes)
    to_stderr("{}: {}{}{}\n", change.path,
              change.before == change.after ? "stays " : printable_text(change.before) + " -> ",
              printable_text(change.after), change.formula.empty() ? "" : fmt::format(" ({})", change.formula));
  write_file_atomically(options.out, text, {Exit::usage, "-o"});
  to_stderr("wrote {}\n", printable(options.out));
}

}  // namespace

void add_scale_command(CLI::App& app) {
  auto options = std::make_shared<ScaleOptions>();
  CLI::App* command = app.add_subcommand("scale", "write a large model's spec with the rates of a small one");
  command->add_option("spec", options->small.file, "the small model's YAML file, whose rates were tuned")->required();
  command->add_option("overrides", options->small.overrides, "key.path=value over it");
  command->add_option("--to", options->large, "the large model's YAML file")->required();
  std::vector<std::string> rules;
  for (const auto& [name, rule] : kRules) rules.push_back(name);
  command
      ->add_option("--rule", options->rule,
                   "mup: maximal update parametrisation; width: lr / width; sqrt_batch: lr * sqrt(batch); none")
      ->required()
      ->check(CLI::IsMember(rules));
  command->add_option("-o,--out", options->out, "new file to write (default: standard output)");
  command->footer(
      "Example: llmc scale specs/quickstart.yaml batch.tokens=512Ki --to specs/llama-1b.yaml --rule mup "
      "-o scaled.yaml");
  command->callback([options] { write_scaled(*options); });
}

}  // namespace llmc::cli
