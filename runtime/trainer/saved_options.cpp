#include "trainer/saved_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>
#include <vector>

#include "device/device.h"
#include "error.h"
#include "files/disk.h"
#include "spec/schema/schema.h"
#include "text/option_checks.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

/// "all" is 0.
std::int64_t sequence_count(const std::string& text) {
  std::int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  if (text == "all") return 0;
  if (error == std::errc() && rest == end && count >= 1 && count <= 1'000'000'000) return count;
  throw Failure(Exit::usage,
                fmt::format("--sequences {} is not valid. Write a number from 1 to 1000000000, or all", text));
}

}  // namespace

struct SavedOptions::State {
  CLI::App& app;
  CLI::App *evaluate = nullptr, *sample = nullptr;
  EvaluateCommand evaluate_command;
  SampleCommand sample_command;
  std::string sequences;
  int ranks = 0;

  CLI::App* add(const std::string& name, const std::string& description, SavedCommand& command, bool gpu) {
    CLI::App* added = app.add_subcommand(name, description);
    added
        ->add_option(
            "--checkpoint", command.checkpoint,
            "the weights: a checkpoint, a run folder for its newest whole one, or a Hugging Face model's folder")
        ->type_name("DIR")
        ->required();
    added->add_option("--base", command.base, "directory of the spec's relative paths (default: the spec's own)")
        ->type_name("DIR");
    added->add_option("--threads", command.threads, "processor threads (default: OMP_NUM_THREADS, or all)")
        ->type_name("N")
        ->check(CLI::Range(1, kMostThreads));
    added->add_option("--device", command.device, "number of the accelerator (default: the first)")
        ->type_name("N")
        ->check(CLI::Range(0, 1023))
        ->group(gpu ? "Options" : "");
    added->add_option("--ranks", ranks)->group("");  // parsed only to refuse it with a message
    return added;
  }

  /// Returns whether `command` was given. Throws if options of a run accompany it.
  bool given(const CLI::App* command) const {
    if (!command->parsed()) return false;
    std::string others = ranks > 0 ? "--ranks" : "";
    for (const CLI::Option* option : app.get_options())
      if (option->count() > 0) others += (others.empty() ? "" : ", ") + option->get_name();
    if (!others.empty())
      throw Failure(Exit::usage, fmt::format("{0} works with saved weights in one process and takes no option of a "
                                             "run. Leave out {1}; `trainer {0} --help` lists the options of {0}",
                                             command->get_name(), others));
    return true;
  }
};

SavedOptions::SavedOptions(CLI::App& app, bool gpu) : state_(new State{app, nullptr, nullptr, {}, {}, {}, 0}) {
  State& s = *state_;
  s.evaluate =
      s.add("evaluate", "print the loss of saved weights on held-out data, without a run", s.evaluate_command, gpu);
  CLI::Option* data = s.evaluate
                          ->add_option("--data", s.evaluate_command.data,
                                       "token shards, with wildcards * and ?; default: all validation data of the "
                                       "checkpoint's run, or of the spec")
                          ->type_name("PATH");
  s.evaluate
      ->add_option("--validation", s.evaluate_command.set,
                   "evaluate only the validation set of this name (validation: that of data.validation.path)")
      ->type_name("NAME")
      ->excludes(data);
  const std::vector<std::string>& formats = spec::find_key("data.validation.format")->words;
  s.evaluate
      ->add_option("--format", s.evaluate_command.format,
                   "format of these shards: nanogpt (uint16) and nanogpt32 (uint32) have no header and must be named")
      ->type_name(fmt::format("{}", fmt::join(formats, "|")))
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  s.evaluate
      ->add_option("--sequences", s.sequences,
                   "number of sequences, evenly spread over the data, or all; default: evaluation.sequences")
      ->type_name("N|all");
  s.evaluate
      ->add_option(
          "--task", s.evaluate_command.tasks,
          "multiple-choice task to answer instead: a file in llm.c's format, or .jsonl of context, endings and "
          "label; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->excludes(data)
      ->excludes("--validation")
      ->excludes("--sequences");
  s.evaluate->add_flag("--json", s.evaluate_command.json,
                       "print a JSON object for each validation set or task, one per line");
  s.evaluate->footer(
      "Examples:\n"
      "  trainer evaluate --checkpoint runs/a\n"
      "  trainer evaluate --checkpoint runs/a/checkpoints/step-00000100 --data 'other/val-*.bin' --sequences all\n"
      "  trainer evaluate --checkpoint runs/a --task hellaswag_val.bin");

  s.sample = s.add("sample", "continue prompts with saved weights, without a run", s.sample_command, gpu);
  s.sample
      ->add_option("--prompt", s.sample_command.prompts,
                   "text to continue; may be repeated; - reads standard input. Without a tokenizer: token ids")
      ->type_name("TEXT")
      ->required()
      ->allow_extra_args(false);
  s.sample
      ->add_option("--tokenizer", s.sample_command.tokenizer,
                   "default: the one in the checkpoint's folder, or data.tokenizer of its run or of the spec")
      ->type_name("FILE");
  s.sample->add_option("--tokens", s.sample_command.tokens, "maximum tokens of a sample (default: sampling.tokens)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  s.sample
      ->add_option("--temperature", s.sample_command.temperature,
                   "temperature; 0: always the most likely token (default: sampling.temperature)")
      ->type_name("T")
      ->check(finite_from(0, 100));
  s.sample
      ->add_option("--top-p", s.sample_command.top_p,
                   "sample only from the smallest set of most likely tokens with this total probability (default: "
                   "sampling.top_p)")
      ->type_name("P")
      ->check(finite_above(0, 1));
  s.sample->add_option("--seed", s.sample_command.seed, "seed of the random numbers (default: seed)");
  s.sample->footer(
      "Examples:\n"
      "  trainer sample --checkpoint runs/a --prompt 'Once upon a time' --tokens 200\n"
      "  trainer sample --checkpoint model --prompt - --temperature 0.7 --top-p 0.9 <prompt.txt");
}

SavedOptions::~SavedOptions() = default;

std::optional<EvaluateCommand> SavedOptions::evaluate(const std::function<fs::path()>& default_base) const {
  if (!state_->given(state_->evaluate)) return std::nullopt;
  EvaluateCommand command = state_->evaluate_command;
  command.base = command.base.empty() ? default_base() : disk::absolute(command.base, Exit::usage);
  if (!state_->sequences.empty()) command.sequences = sequence_count(state_->sequences);
  if (command.data.empty() && state_->evaluate->get_option("--format")->count() > 0)
    throw Failure(Exit::usage, "--format applies to the shards of --data. Give --data as well");
  return command;
}

std::optional<SampleCommand> SavedOptions::sample(const std::function<fs::path()>& default_base) const {
  if (!state_->given(state_->sample)) return std::nullopt;
  SampleCommand command = state_->sample_command;
  command.base = command.base.empty() ? default_base() : disk::absolute(command.base, Exit::usage);
  return command;
}

}  // namespace llmc
