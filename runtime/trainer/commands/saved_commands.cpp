#include "trainer/commands/saved_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "checkpoint/weight_files.h"
#include "comm/collectives.h"
#include "comm/launcher.h"
#include "comm/rendezvous.h"
#include "data/shard_tokenizer.h"
#include "data/shards.h"
#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "program/compiled_spec.h"
#include "run/run_folder.h"
#include "spec/scalars.h"
#include "spec/validation_sets.h"
#include "spec/values.h"
#include "step/session.h"
#include "text/console.h"
#include "text/message.h"
#include "text/plural.h"
#include "text/printable.h"
#include "train/evaluation.h"
#include "train/sampling.h"
#include "train/task.h"
#include "trainer/startup/documents.h"
#include "trainer/startup/saved_model.h"
#include "trainer/startup/values.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

void warn(const std::string& line) { to_stderr("warning: {}\n", printable_text(line)); }

/// Weights that a command uses, with the values of their run, or of the trainer.
struct Chosen {
  SavedModel model;
  std::optional<WeightFiles> weights;  // open
  spec::Spec values;
};

Chosen choose(const SavedCommand& command, const ProgramInfo& info) {
  const LauncherInfo launch = find_launcher([](const char* name) -> const char* { return std::getenv(name); });
  if (launch.world_size > 1)
    throw Failure(Exit::usage,
                  fmt::format("evaluate and sample run as one process, but {0} started {1} ranks. Start one process",
                              launch.by, launch.world_size));
  const spec::Values built = built_values(info, command.base);
  Chosen chosen{{}, {}, built.spec};
  use_weights(command.checkpoint, built.spec, warn, [&](const SavedModel& model) {
    chosen.model = model;
    chosen.weights.emplace(model.folder, info.parameters, model.form);
  });
  if (const fs::path& run = chosen.model.run; !run.empty())
    if (const auto text = RunFolder::spec_yaml(run))
      chosen.values =
          go_on_with(built, read_spec(*text, disk::absolute(run, Exit::checkpoint).lexically_normal()), true).spec;
  if (chosen.model.state && chosen.model.state->separator >= 0)
    chosen.values.data.documents.separator = chosen.model.state->separator;
  return chosen;
}

/// Loads the weights onto a device of the command's own.
class Loaded {
 public:
  Loaded(const SavedCommand& command, const WeightFiles& weights, const Program& program)
      : rendezvous_({}, {}),
        device_(command.device.value_or(0), command.threads),
        ranks_(device_, {}, rendezvous_),
        session_(device_, ranks_, program) {
    weights.load(session_.state());
    session_.refresh_copies();
  }
  Session& session() { return session_; }

 private:
  Rendezvous rendezvous_;
  Device device_;
  Communicator ranks_;
  Session session_;
};

std::string read_prompt(const std::string& word) {
  if (word != "-") return word;
  constexpr std::size_t kMost = 1 << 20;
  std::string text(kMost + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  if (text.size() > kMost)
    throw Failure(Exit::usage, "standard input has more than 1 MiB, which is too much for a prompt");
  if (text.ends_with('\n')) text.pop_back();  // the shell's newline, not part of the prompt
  return text;
}

/// File to encode prompts with; empty if there is none.
fs::path tokenizer_of(const SampleCommand& command, const Chosen& chosen) {
  std::error_code error;
  if (!command.tokenizer.empty()) return command.tokenizer;
  for (const char* name : {"tokenizer.model", "tokenizer.json"})
    if (const fs::path beside = chosen.model.folder / name; fs::exists(beside, error)) return beside;
  return chosen.values.data.tokenizer;
}

/// Throws if the tokenizer differs from the one that the checkpoint was trained with.
void check_tokenizer(const fs::path& file, const SavedModel& model) {
  if (!model.state || model.state->tokenizer.empty()) return;
  const std::string checksum = file_checksum(file);
  if (!checksum.empty() && checksum != model.state->tokenizer)
    throw Failure(Exit::checkpoint,
                  fmt::format("'{}' is not the tokenizer that '{}' was trained with: its checksum is {}, not {}. Name "
                              "that one with --tokenizer",
                              file.string(), model.folder.string(), checksum, model.state->tokenizer));
}

void write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Sets that the command evaluates.
std::vector<spec::ValidationSet> chosen_sets(const EvaluateCommand& command, const spec::Spec& values) {
  if (!command.data.empty()) return {{"", {command.data, command.format}}};
  std::vector<spec::ValidationSet> sets = spec::validation_sets(values.data);
  if (sets.empty()) throw Failure(Exit::data, "there is no data.validation to evaluate on. Give --data PATH");
  if (command.set.empty()) return sets;
  std::vector<std::string> words;
  for (const spec::ValidationSet& set : sets) words.push_back(set.word());
  std::erase_if(sets, [&](const spec::ValidationSet& set) { return set.word() != command.set; });
  if (!sets.empty()) return sets;
  const std::string meant = spec::did_you_mean(command.set, words);
  throw Failure(Exit::usage, fmt::format("there is no validation set '{}'. {}", printable(command.set),
                                         meant.empty() ? fmt::format("There {} {}", words.size() == 1 ? "is" : "are",
                                                                     spec::either(words, " and "))
                                                       : meant));
}

/// A set with its open shards and the number of sequences to evaluate.
struct Opened {
  spec::ValidationSet set;
  std::int64_t there, sequences;
  Evaluation evaluation;
};

/// Tokenizer of the run, or of the weights' folder, for data whose own is not known; null if none can be read.
/// `without`: what is missing then, as a sentence.
std::shared_ptr<const Tokenizer> known_tokenizer(const Chosen& chosen, const char* without) {
  std::error_code error;
  for (const fs::path& file : {fs::path(chosen.values.data.tokenizer), chosen.model.folder / "tokenizer.model",
                               chosen.model.folder / "tokenizer.json"}) {
    if (file.empty() || !fs::exists(file, error)) continue;
    try {
      return std::make_shared<const Tokenizer>(file);
    } catch (const Failure& failure) {
      warn(fmt::format("{}. {}", failure.what(), without));
      return nullptr;
    }
  }
  return nullptr;
}

Opened open_set(const spec::ValidationSet& set, std::int64_t asked, const ProgramInfo& info,
                const std::shared_ptr<const Tokenizer>& tokenizer, const spec::Data& data) {
  const auto shards = std::make_shared<const TokenShards>(set.source.path, set.source.format, info.vocab_size);
  if (!shards->warning().empty()) warn(shards->warning());
  const std::int64_t there = shards->samples(info.sequence_length);
  const std::int64_t sequences = asked == 0 ? there : std::min(asked, there);
  return {set, there, sequences,
          Evaluation(set.name, shards, info, sequences, tokenizer_of_shards(set.source.path, tokenizer),
                     document_rule(data, info.vocab_size, tokenizer.get()))};
}

void print_weights(const Chosen& chosen) {
  fmt::print("weights    {}{}\n", printable(chosen.model.folder.string()),
             chosen.model.state ? fmt::format(", step {}", format_count(chosen.model.state->step)) : "");
}

void answer_tasks(const EvaluateCommand& command, const Chosen& chosen, const Program& program) {
  const ProgramInfo& info = program.info;
  const std::shared_ptr<const Tokenizer> tokenizer = known_tokenizer(chosen, "Tasks in JSON lines need it");
  std::vector<TaskEvaluation> tasks;
  for (const std::string& file : command.tasks)
    tasks.emplace_back(file, read_task(file, tokenizer.get(), {info.vocab_size, info.sequence_length}, 0), info);
  Loaded loaded(command, *chosen.weights, program);
  loaded.session().divide_texts(find_documents(chosen.values.data, tokenizer.get()));
  if (!command.json) print_weights(chosen);
  for (const TaskEvaluation& task : tasks) {
    const TaskResult is = task.run(loaded.session(), [] { return false; }).value();
    if (command.json) {
      nlohmann::ordered_json object = {{"checkpoint", chosen.model.folder.string()}, {"step", nullptr}};
      if (chosen.model.state) object["step"] = chosen.model.state->step;
      object.update({{"task", is.task},
                     {"examples", is.examples},
                     {"accuracy", is.accuracy},
                     {"accuracy_norm", is.accuracy_norm}});
      fmt::print("{}\n", object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    } else {
      fmt::print("task       {}: {} example{}\naccuracy   {:.2f} %, {:.2f} % by length\n", printable(is.task),
                 format_count(is.examples), plural(is.examples), 100 * is.accuracy, 100 * is.accuracy_norm);
    }
  }
}

}  // namespace

void evaluate(const EvaluateCommand& command, const Program& program) {
  const ProgramInfo& info = program.info;
  const Chosen chosen = choose(command, info);
  if (!command.tasks.empty()) return answer_tasks(command, chosen, program);
  std::vector<Opened> sets;
  const std::shared_ptr<const Tokenizer> tokenizer = known_tokenizer(chosen, "Bits a byte are left out");
  for (const spec::ValidationSet& set : chosen_sets(command, chosen.values))
    sets.push_back(open_set(set, command.sequences.value_or(chosen.values.evaluation.sequences), info, tokenizer,
                            chosen.values.data));

  Loaded loaded(command, *chosen.weights, program);
  if (!command.json) print_weights(chosen);
  for (Opened& opened : sets) {
    const Validation is = opened.evaluation.run(loaded.session(), [] { return false; }).value();
    const std::int64_t tokens = opened.sequences * info.sequence_length;
    if (command.json) {
      nlohmann::ordered_json object = {{"checkpoint", chosen.model.folder.string()}, {"step", nullptr}};
      if (chosen.model.state) object["step"] = chosen.model.state->step;
      if (!is.set.empty()) object["validation"] = is.set;
      object.update({{"data", opened.set.source.path},
                     {"sequences", opened.sequences},
                     {"tokens", tokens},
                     {"loss", is.loss},
                     {"perplexity", std::exp(is.loss)},
                     {"top1", is.top1}});
      if (is.bits_per_byte) object["bits_per_byte"] = *is.bits_per_byte;
      fmt::print("{}\n", object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
      continue;
    }
    if (!is.set.empty()) fmt::print("set        {}\n", printable(is.set));
    fmt::print("data       {}: {} of {} sequence{}, {} tokens\n", printable(opened.set.source.path),
               format_count(opened.sequences), format_count(opened.there), plural(opened.there), format_count(tokens));
    fmt::print("loss       {:.6f} nats a token\nperplexity {:.4f}\ntop-1      {:.2f} %\n", without_nan_sign(is.loss),
               without_nan_sign(std::exp(is.loss)), 100 * is.top1);
    if (is.bits_per_byte) fmt::print("bits       {:.6f} a byte of text\n", without_nan_sign(*is.bits_per_byte));
  }
}

void sample(const SampleCommand& command, const Program& program) {
  const ProgramInfo& info = program.info;
  const Chosen chosen = choose(command, info);
  spec::Sampling values = chosen.values.sampling;
  values.tokens = command.tokens.value_or(values.tokens);
  values.temperature = command.temperature.value_or(values.temperature);
  values.top_p = command.top_p.value_or(values.top_p);
  values.prompts.clear();
  for (const std::string& word : command.prompts) values.prompts.push_back(read_prompt(word));

  std::optional<Tokenizer> tokenizer;
  if (const fs::path file = tokenizer_of(command, chosen); !file.empty()) {
    check_tokenizer(file, chosen.model);
    tokenizer.emplace(file);
  }
  for (const std::string& prompt : values.prompts)
    if (!(tokenizer && tokenizer->encodes()) && !spec::parse_token_ids(prompt))
      throw Failure(Exit::usage,
                    fmt::format("{}, so the prompt '{}' must be token ids such as \"17 4 256\"",
                                tokenizer ? fmt::format("llmc can decode with the tokenizer.json but not encode ({})",
                                                        tokenizer->why_not_encodes())
                                          : "there is no tokenizer (name one with --tokenizer FILE)",
                                printable(prompt)));
  const Sampling sampling(values, tokenizer ? &*tokenizer : nullptr, chosen.values.data.documents.separator, info,
                          command.seed.value_or(chosen.values.seed));

  Loaded loaded(command, *chosen.weights, program);
  loaded.session().divide_texts(find_documents(chosen.values.data, tokenizer ? &*tokenizer : nullptr));
  loaded.session().gather_weights();
  const std::int64_t step = chosen.model.state ? chosen.model.state->step : 0;
  const bool terminal = isatty(STDOUT_FILENO);
  const auto shown = [&](const std::string& text) { return terminal ? printable_text(text) : text; };
  for (std::size_t i = 0; i < values.prompts.size(); ++i) {
    if (i > 0) write("---\n");
    write(shown(sampling.prompt_text(i)) + (tokenizer ? "" : " "));
    sampling.stream(loaded.session(), step, i, [&](const std::string& text) { write(shown(text)); });
    write("\n");
  }
}

}  // namespace llmc
