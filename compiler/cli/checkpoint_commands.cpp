#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <set>

#include "compiler/cli/commands.h"
#include "compiler/tools/checkpoints/compare.h"
#include "compiler/tools/checkpoints/damage.h"
#include "compiler/tools/checkpoints/export.h"
#include "compiler/tools/checkpoints/listing.h"
#include "compiler/tools/checkpoints/show.h"
#include "compiler/tools/report/plan_report.h"
#include "error.h"
#include "files/disk.h"
#include "spec/scalars.h"
#include "spec/source.h"
#include "text/console.h"
#include "text/message.h"
#include "text/plural.h"
#include "text/printable.h"

namespace llmc::cli {

namespace fs = std::filesystem;

namespace {

struct CheckpointOptions {
  std::string run, a, b;
  std::vector<std::string> directories;
  Retention retention;
  bool json = false, yes = false;
};

void note(const std::string& text) { to_stderr("note: {}\n", printable_text(text)); }

void list(const CheckpointOptions& options) {
  const checkpoints::Listing listing = checkpoints::list(options.run);
  for (const std::string& name : listing.strangers)
    note(fmt::format("{} is not a checkpoint and was skipped", spec::in_quotes(name)));
  fmt::print("{}", options.json ? checkpoints::printed(checkpoints::listing_json(listing))
                                : printable_text(checkpoints::listing_text(listing)));
}

void warn(const std::string& text) { to_stderr("warning: {}\n", printable_text(text)); }

/// Returns the checkpoints to verify: the named folders, and all checkpoints of a named run folder.
std::vector<fs::path> checkpoints_of(const std::vector<std::string>& named) {
  std::vector<fs::path> result;
  for (const std::string& name : named) {
    std::error_code error;
    if (!fs::is_directory(checkpoints_directory(name), error)) {
      result.push_back(checkpoints::find_checkpoint(name, warn));
      continue;
    }
    const std::vector<CheckpointEntry> list = list_checkpoints(name);
    if (list.empty())
      throw Failure(Exit::checkpoint,
                    fmt::format("the run '{}' has no checkpoints. Name another run or a checkpoint", name));
    for (const CheckpointEntry& entry : list) result.push_back(entry.path);
  }
  return result;
}

/// Returns the exit code: that of damaged checkpoints if there is one. A checkpoint that a trainer removes meanwhile is
/// neither damaged nor complete.
int verify(const CheckpointOptions& options) {
  bool complete = true, verified = false;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const fs::path& path : checkpoints_of(options.directories)) {
    const checkpoints::DamageReport verdict = checkpoints::inspect_checkpoint(path);
    if (verdict.removed) {
      note(fmt::format("checkpoint '{}' was removed while it was read", path.string()));
      continue;
    }
    verified = true;
    complete &= verdict.damage.empty();
    for (const std::string& name : verdict.strangers)
      note(fmt::format("{} in '{}' is not in its manifest, so it is not part of the checkpoint", spec::in_quotes(name),
                       path.string()));
    if (options.json)
      list.push_back(checkpoints::damage_json(verdict));
    else
      fmt::print("{}", printable_text(checkpoints::damage_text(verdict)));
    std::fflush(stdout);  // the next one may take minutes
  }
  if (!verified)
    throw Failure(Exit::checkpoint, "every checkpoint was removed before it was verified. Repeat the command");
  if (options.json) fmt::print("{}", checkpoints::printed(list));
  return static_cast<int>(complete ? Exit::done : Exit::checkpoint);
}

void show(const CheckpointOptions& options) {
  checkpoints::with_checkpoints({options.a}, warn, [&](const std::vector<fs::path>& found) {
    const checkpoints::Contents contents = checkpoints::open(found[0]);
    fmt::print("{}", options.json ? checkpoints::printed(checkpoints::show_json(contents))
                                  : printable_text(checkpoints::show_text(contents)));
  });
}

int diff(const CheckpointOptions& options) {
  bool equal = true;
  checkpoints::with_checkpoints({options.a, options.b}, warn, [&](const std::vector<fs::path>& found) {
    const checkpoints::Contents before = checkpoints::open(found[0]), after = checkpoints::open(found[1]);
    const checkpoints::Comparison comparison = checkpoints::compare(before, after);
    fmt::print("{}", options.json ? checkpoints::printed(checkpoints::comparison_json(comparison))
                                  : printable_text(checkpoints::comparison_text(before, after, comparison)));
    equal = comparison.empty();
  });
  return equal ? 0 : 1;
}

void prune(const CheckpointOptions& options) {
  if (options.retention.keep_last == 0 && options.retention.keep_every == 0)
    throw Failure(Exit::usage, "prune needs a rule for what to keep. Give --keep-last N, --keep-every K, or both");
  const checkpoints::Pruning pruning = options.yes ? checkpoints::prune(options.run, options.retention, note)
                                                   : checkpoints::choose(options.run, options.retention);
  for (const checkpoints::Listed& checkpoint : pruning.damaged)
    note(fmt::format("'{}' is damaged and was not removed: {}", checkpoint.path.string(), *checkpoint.damage));
  for (const checkpoints::Listed& checkpoint : pruning.removed)
    fmt::print("{} {}\n", options.yes ? "removed" : "would remove", printable(checkpoint.path.string()));
  const auto removed = static_cast<std::int64_t>(pruning.removed.size()),
             kept = static_cast<std::int64_t>(pruning.kept.size());
  fmt::print("{} checkpoint{} {}, {} kept\n", removed, plural(removed), options.yes ? "removed" : "to remove", kept);
  if (!options.yes && removed) to_stderr("rerun the command with --yes to remove them\n");
}

/// Makes an option take a number of bytes in a spec's notation.
void set_bytes(CLI::Option* option) {
  option->type_name("BYTES")->transform([](const std::string& text) {
    const spec::ParsedScalar<std::int64_t> bytes = spec::parse_bytes(text);
    if (bytes.value && *bytes.value > 0) return fmt::format("{}", *bytes.value);
    throw CLI::ValidationError(fmt::format("the size {} {}. Write a number of bytes such as 5GB", spec::in_quotes(text),
                                           bytes.value ? "is empty" : bytes.problem));
  });
}

/// Throws Failure(usage) if one checkpoint is named twice, such as by its run folder and itself.
void check_distinct(const checkpoints::ExportOptions& options) {
  std::set<fs::path> seen = {disk::canonical_if_known(options.checkpoint)};
  for (const fs::path& other : options.averaged)
    if (!seen.insert(disk::canonical_if_known(other)).second)
      throw Failure(Exit::usage,
                    fmt::format("'{}' is named twice. Name each checkpoint once, such as RUN/checkpoints/step-00000100",
                                other.string()));
}

void export_checkpoint(const checkpoints::ExportOptions& options) {
  std::vector<fs::path> named = {options.checkpoint};
  named.insert(named.end(), options.averaged.begin(), options.averaged.end());
  checkpoints::ExportOptions found = options;
  checkpoints::Exported exported{};
  checkpoints::with_checkpoints(named, warn, [&](const std::vector<fs::path>& paths) {
    found.checkpoint = paths[0];
    found.averaged.assign(paths.begin() + 1, paths.end());
    check_distinct(found);
    exported = checkpoints::export_model(found);
  });
  if (!exported.not_loaded.empty()) note(exported.not_loaded + "; transformers 4 and llmc load the folder");
  if (options.tokenizer == "none")
    note("no tokenizer was exported");
  else if (exported.tokenizer.empty())
    note(exported.looked_for.empty()
             ? "no tokenizer was exported, because the checkpoint is not in a run folder. Name one with --tokenizer"
             : fmt::format("no tokenizer was exported, because '{}' does not exist. Name another with --tokenizer",
                           exported.looked_for.string()));
  else
    note(fmt::format(
        "the tokenizer is '{}'{}", exported.tokenizer,
        exported.tokenizer_changed ? ", without the tokens that it adds around a text: the model has seen none" : ""));
  const bool mean = !found.averaged.empty();
  fmt::print("{}: {} parameters{} as {} in {} file{}, {}{}\n", printable(options.out.string()),
             format_count(exported.parameters),
             mean ? "" : fmt::format(" of '{}'", printable(found.checkpoint.string())), name_of(exported.dtype),
             exported.files, plural(exported.files), report::human_bytes(static_cast<double>(exported.bytes)),
             mean ? ", the mean of" : "");
  if (!mean) return;
  fmt::print("  {}\n", printable(found.checkpoint.string()));
  for (const fs::path& other : found.averaged) fmt::print("  {}\n", printable(other.string()));
}

constexpr DType kExported[] = {DType::f32, DType::bf16, DType::f16};

/// Adds the options that `export` and `average` share.
void add_export_options(CLI::App* command, const std::shared_ptr<checkpoints::ExportOptions>& options,
                        const char* default_dtype) {
  command->add_option("-o,--out", options->out, "new or empty folder")->required();
  command
      ->add_option_function<std::string>(
          "--dtype",
          [options](const std::string& dtype) {
            for (const DType type : kExported)
              if (dtype == name_of(type)) options->dtype = type;
          },
          fmt::format("dtype of the weights (default: {})", default_dtype))
      ->check(CLI::IsMember({name_of(kExported[0]), name_of(kExported[1]), name_of(kExported[2])}));
  set_bytes(command->add_option("--shard-size", options->shard_bytes, "maximum bytes of tensors in a file")
                ->default_str("5GB"));
  command->add_option("--tokenizer", options->tokenizer,
                      "a sentencepiece model, a tokenizer.json, a folder with one, or none (default: the run's)");
}

}  // namespace

void add_checkpoint_commands(CLI::App& app, Result& result) {
  CLI::App* command =
      app.add_subcommand("checkpoint", "list, verify, compare, prune, export and average the checkpoints of runs");
  command->footer("`llmc checkpoint ls --help` and so on have examples.");
  command->require_subcommand(1);
  auto options = std::make_shared<CheckpointOptions>();
  const auto add_json = [&](CLI::App* of) { of->add_flag("--json", options->json, "as JSON on standard output"); };
  const std::string one = "a checkpoint, or a run folder for its newest one";

  CLI::App* ls_command = command->add_subcommand("ls", "the checkpoints of a run: step, time, size, validation loss");
  ls_command->add_option("run", options->run, "the run's folder")->required();
  add_json(ls_command);
  ls_command->footer(
      "Sizes are checked, checksums are not; `llmc checkpoint verify` checks both.\nExample: llmc checkpoint ls "
      "runs/quickstart");
  ls_command->callback([options] { list(*options); });

  CLI::App* show_command = command->add_subcommand("show", "contents of a checkpoint: step, data position, tensors");
  show_command->add_option("checkpoint", options->a, one)->required();
  add_json(show_command);
  show_command->footer("Example: llmc checkpoint show runs/quickstart/checkpoints/step-00000100");
  show_command->callback([options] { show(*options); });

  CLI::App* verify_command = command->add_subcommand("verify", "read checkpoints in full and report damage");
  verify_command
      ->add_option("checkpoints", options->directories, "checkpoints, or run folders for all of their checkpoints")
      ->required();
  add_json(verify_command);
  verify_command->footer(
      "Exit code 0: all are complete; 6: one is damaged. One that a trainer removes meanwhile does not count.\n"
      "Example: llmc checkpoint verify runs/quickstart");
  verify_command->callback([options, &result] { result.exit_code = verify(*options); });

  CLI::App* diff_command = command->add_subcommand("diff", "compare two checkpoints, tensor by tensor");
  diff_command->add_option("a", options->a, one)->required();
  diff_command->add_option("b", options->b, "the second checkpoint, or a run folder for its newest one")->required();
  add_json(diff_command);
  diff_command->footer(
      "Exit code 0: they are equal; 1: they differ.\n"
      "Example: llmc checkpoint diff runs/a/checkpoints/step-00000100 runs/b/checkpoints/step-00000100");
  diff_command->callback([options, &result] { result.exit_code = diff(*options); });

  CLI::App* prune_command =
      command->add_subcommand("prune", "remove old checkpoints of a run; without --yes list them");
  prune_command->add_option("run", options->run, "the run's folder")->required();
  prune_command->add_option("--keep-last", options->retention.keep_last, "keep the newest N")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  prune_command->add_option("--keep-every", options->retention.keep_every, "keep those whose step is a multiple of K")
      ->type_name("K")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  prune_command->add_flag("--yes", options->yes, "remove them");
  prune_command->footer(
      "The newest complete checkpoint and damaged ones are always kept.\nExample: llmc checkpoint prune "
      "runs/quickstart --keep-last 3 --keep-every 1000 --yes");
  prune_command->callback([options] { prune(*options); });

  auto exporting = std::make_shared<checkpoints::ExportOptions>();
  CLI::App* export_command = command->add_subcommand("export", "export a checkpoint's model as a Hugging Face folder");
  export_command->add_option("checkpoint", exporting->checkpoint, one)->required();
  add_export_options(export_command, exporting, "precision.compute of the run");
  export_command->footer("Example: llmc checkpoint export runs/quickstart -o quickstart-hf --dtype bf16");
  export_command->callback([exporting] { export_checkpoint(*exporting); });

  auto averaging = std::make_shared<checkpoints::ExportOptions>();
  averaging->dtype = DType::f32;
  CLI::App* average_command = command->add_subcommand(
      "average", "export the mean of the weights of several checkpoints as a Hugging Face folder");
  average_command->add_option("checkpoints", options->directories, "two or more checkpoints, or run folders")
      ->required();
  add_export_options(average_command, averaging, "fp32");
  average_command->footer(
      "`trainer evaluate --checkpoint DIR` and init.from=DIR take the folder.\nExample: llmc checkpoint average "
      "runs/a/checkpoints/step-00000080 runs/a/checkpoints/step-00000100 -o mean");
  average_command->callback([options, averaging] {
    if (options->directories.size() < 2)
      throw Failure(Exit::usage, "average needs two or more checkpoints. `llmc checkpoint export` exports one");
    averaging->checkpoint = options->directories.front();
    averaging->averaged.assign(options->directories.begin() + 1, options->directories.end());
    export_checkpoint(*averaging);
  });
}

}  // namespace llmc::cli
