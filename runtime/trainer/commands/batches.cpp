#include "trainer/commands/batches.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "data/sample_walk.h"
#include "error.h"
#include "host/executable.h"
#include "program/compiled_spec.h"
#include "run/history.h"
#include "text/plural.h"
#include "text/printable.h"
#include "train/sample_text.h"
#include "trainer/startup/prepare.h"

namespace llmc {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Finds the order that the samples of step first + 1 follow, and the step it counts from. `history`: of the run
/// folder.
OrderFrom order_of_step(const Prepared& p, const Options& options, const ProgramInfo& info, const std::string& history,
                        std::int64_t first) {
  const TrainState& state = p.state;
  if (first >= state.step)
    return {state.step,
            "",
            {state.data_fingerprint, state.data_seed, state.position,
             p.values.run.spec.batch.tokens / info.sequence_length},
            state.guard.rollbacks};
  const auto refuse = [&](const std::string& why) -> OrderFrom {
    throw Failure(Exit::checkpoint,
                  fmt::format("the samples of step {} of '{}' are not known: {}. --batches knows steps from {} on",
                              first + 1, options.run.string(), why, state.step + 1));
  };
  const std::optional<OrderFrom> found = order_after(history, first);
  if (!found) return refuse("history.jsonl does not have it");
  if (found->order.data != state.data_fingerprint)
    return refuse(fmt::format("it was trained on other data, of fingerprint {}", found->order.data));
  return *found;
}

Json as_json(std::int64_t step, const DataPosition& at, const Json& samples) {
  return {{"step", step}, {"epoch", epoch_of(at)}, {"sequence_length", length_of(at)}, {"samples", samples}};
}

void print_text(const Json& step) {
  const auto count = static_cast<std::int64_t>(step["samples"].size()),
             length = step["sequence_length"].get<std::int64_t>();
  fmt::print("step {}, epoch {}: {} sample{} of {} tokens\n", step["step"].get<std::int64_t>(),
             step["epoch"].get<std::uint64_t>(), count, plural(count), length);
  for (const Json& sample : step["samples"]) {
    const auto targets = sample["targets"].get<std::int64_t>();
    fmt::print("  {}  {} from token {}{}{}\n", sample["id"].get<std::uint64_t>(),
               printable(fs::path(sample["file"].get<std::string>()).filename().string()),
               sample["token"].get<std::int64_t>(), targets < length ? fmt::format(", {} of its targets", targets) : "",
               sample.contains("text") ? "  " + sample["text"].get<std::string>() : "");
  }
}

}  // namespace

void print_batches(const Options& options, const ProgramInfo& info) {
  Console console(stdout, true);  // prints only the warnings of a start
  RunFolder::check_model(options.run, built_values(info, options.base).spec);
  const Prepared p = prepare(options, info, noted_spec(executable_folder()), false, console);
  const spec::Spec& run = p.values.run.spec;
  const auto [first, count] = *options.batches;
  if (first + count > run.schedule.steps)
    throw Failure(Exit::usage, fmt::format("--batches {}:{} names steps {} to {}, but the run has {} (schedule.steps)",
                                           first + 1, count, first + 1, first + count, run.schedule.steps));
  std::unique_ptr<const Tokenizer> tokenizer;
  if (options.text && !run.data.tokenizer.empty()) tokenizer = std::make_unique<const Tokenizer>(run.data.tokenizer);

  const std::string history = RunFolder::history(options.run);
  std::optional<SampleWalk> walk;
  OrderFrom from;
  for (std::int64_t step = first; step < first + count; ++step) {
    // The steps of one range may belong to several starts.
    OrderFrom now = order_of_step(p, options, info, history, step);
    if (!walk || now.step != from.step || !(now.order == from.order)) {
      from = std::move(now);
      const DataPosition& at = from.order.position;
      walk.emplace(p.inputs.train, from.order.seed, length_of(at), at);
      std::int64_t samples = 0;
      if (__builtin_mul_overflow(step - from.step, from.order.samples_per_step, &samples) ||
          __builtin_mul_overflow(samples, length_of(at), &samples))
        throw Failure(Exit::usage,
                      fmt::format("--batches {}: the data up to there have more than 2^63 tokens", step + 1));
      walk->pass_over(static_cast<std::uint64_t>((step - from.step) * from.order.samples_per_step));
    }
    const DataPosition at = walk->position();
    Json samples = Json::array();
    for (std::int64_t i = 0; i < from.order.samples_per_step; ++i) {
      std::int64_t targets = 0;
      const std::uint64_t id = walk->next(targets);
      const auto sample = static_cast<std::int64_t>(id);
      const SamplePlace place = place_of(walk->samples(), sample);
      samples.push_back({{"id", id}, {"file", place.file}, {"token", place.token}, {"targets", targets}});
      if (options.text)
        samples.back()["text"] =
            (options.json ? beginning_of : shown_beginning_of)(walk->samples(), sample, tokenizer.get());
    }
    const Json line = as_json(step + 1, at, samples);
    if (options.json)
      fmt::print("{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
    else
      print_text(line);
  }
}

}  // namespace llmc
