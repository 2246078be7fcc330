#include "trainer/commands/batches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "data/documents.h"
#include "data/order/mixture_walk.h"
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

/// The order that the samples of a step follow, the step it counts from, and its sources.
struct SampleOrderOf {
  OrderFrom from;
  Sources sources;
};

/// "data.train.code, data.train.web are given": the sources drawn from at a position that are not among `now`.
std::string missing_sources(const Sources& now, const DataPosition& at) {
  std::vector<std::string> keys;
  for (const SourcePosition& record : at.sources)
    if (record.weight > 0 && !record.name.empty() && std::ranges::find(now, record.data, &Source::data) == now.end())
      keys.push_back("data.train." + record.name);
  if (keys.empty()) keys.emplace_back("data.train.path");
  return fmt::format("{} {} given", fmt::join(keys, ", "), keys.size() == 1 ? "is" : "are");
}

/// Finds the order of step first + 1. `history`: of the run folder.
SampleOrderOf order_of_step(const Prepared& p, const Options& options, const ProgramInfo& info,
                            const std::string& history, std::int64_t first) {
  const TrainState& state = p.state;
  if (first >= state.step)
    return {{state.step,
             "",
             {state.data_fingerprint, state.data_seed, state.position,
              p.values.run.spec.batch.tokens / info.sequence_length},
             state.guard.rollbacks},
            p.inputs.train};
  const auto known = [&](const OrderFrom& of) {
    return !sources_at(p.inputs.train, {of.order.position, of.order.data}).empty();
  };
  const auto refuse = [&](const std::string& why, const std::string& remedy) -> SampleOrderOf {
    std::int64_t from = state.step;  // the steps after it are known
    for (std::optional<OrderFrom> before; from > first; from = before->step)
      if (before = order_after(history, from - 1); !before || !known(*before)) break;
    throw Failure(Exit::checkpoint,
                  fmt::format("the samples of step {} of '{}' are not known: {}. --batches knows steps from {} on{}",
                              first + 1, options.run.string(), why, from + 1, remedy));
  };
  const std::optional<OrderFrom> found = order_after(history, first);
  if (!found) return refuse("history.jsonl does not have it", "");
  const Sources sources = sources_at(p.inputs.train, {found->order.position, found->order.data});
  if (sources.empty())
    return refuse(fmt::format("it was trained on other data, of fingerprint {}", found->order.data),
                  fmt::format(", and this one if {} as then, with --allow data.train",
                              missing_sources(p.inputs.train, found->order.position)));
  return {*found, sources};
}

/// Advances to the next sample, and counts its targets with a loss.
MixtureWalk::Visited next_sample(MixtureWalk& walk, std::int64_t length, const DocumentRule& rule) {
  if (!rule.mask_first) return walk.next();
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length) + 1), targets;
  MixtureWalk::Visited visited = walk.next([&](SampleId of) {
    walk.samples(of.source).read(static_cast<std::int64_t>(of.id), tokens);
    targets.assign(tokens.begin() + 1, tokens.end());
    return std::span(targets);
  });
  mask_first_targets(std::span(tokens).first(targets.size()), targets, rule);
  visited.targets = std::ssize(targets) - std::ranges::count(targets, -1);
  return visited;
}

Json as_json(std::int64_t step, const DataPosition& at, const Json& samples) {
  Json line = {{"step", step}};
  const auto epochs = epochs_by_name(at);
  if (epochs.empty()) line["epoch"] = epoch_of(at);
  for (const auto& [name, epoch] : epochs) line["epochs"][name] = epoch;
  line["sequence_length"] = length_of(at);
  line["samples"] = samples;
  return line;
}

std::string epochs_text(const Json& step) {
  if (step.contains("epoch")) return fmt::format("epoch {}", step["epoch"].get<std::uint64_t>());
  std::string list;
  for (const auto& [name, epoch] : step["epochs"].items())
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name, epoch.get<std::uint64_t>());
  return "epochs " + list;
}

void print_text(const Json& step) {
  const auto count = static_cast<std::int64_t>(step["samples"].size()),
             length = step["sequence_length"].get<std::int64_t>();
  fmt::print("step {}, {}: {} sample{} of {} tokens\n", step["step"].get<std::int64_t>(), epochs_text(step), count,
             plural(count), length);
  for (const Json& sample : step["samples"]) {
    const auto targets = sample["targets"].get<std::int64_t>();
    fmt::print(
        "  {}{}  {} from token {}{}{}\n", sample.contains("source") ? sample["source"].get<std::string>() + ":" : "",
        sample["id"].get<std::uint64_t>(), printable(fs::path(sample["file"].get<std::string>()).filename().string()),
        sample["token"].get<std::int64_t>(), targets < length ? fmt::format(", {} of its targets", targets) : "",
        sample.contains("text") ? "  " + sample["text"].get<std::string>() : "");
  }
}

}  // namespace

void print_batches(const Options& options, const ProgramInfo& info) {
  Console console(stdout, true);  // prints only the warnings of a start
  RunFolder::check_model(options.run, built_values(info, options.base).spec, options.allow);
  const auto start =
      find_start(options.run, options.resume, [&](const std::string& line) { console.warning(line); }, Depth::sizes);
  const Prepared p = prepare(options, info, noted_spec(executable_folder()), start, false, console);
  const spec::Spec& run = p.values.run.spec;
  const auto [first, count] = *options.batches;
  if (first + count > run.schedule.steps)
    throw Failure(
        Exit::usage,
        fmt::format(
            "--batches {0}:{1} names steps {0} to {2}, but the run has {3} (schedule.steps). Write a range up to {3}",
            first + 1, count, first + count, run.schedule.steps));
  std::unique_ptr<const Tokenizer> tokenizer;
  if (options.text && !run.data.tokenizer.empty()) tokenizer = std::make_unique<const Tokenizer>(run.data.tokenizer);

  const std::string history = RunFolder::history(options.run);
  std::optional<MixtureWalk> walk;
  SampleOrderOf order;
  const OrderFrom& from = order.from;
  for (std::int64_t step = first; step < first + count; ++step) {
    // The steps of one range may belong to several starts.
    SampleOrderOf now = order_of_step(p, options, info, history, step);
    if (!walk || now.from.step != from.step || !(now.from.order == from.order)) {
      order = std::move(now);
      const DataPosition& at = from.order.position;
      walk.emplace(order.sources, from.order.seed, length_of(at), at);
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
      const auto [of, targets] = next_sample(*walk, length_of(at), p.inputs.documents);
      const auto sample = static_cast<std::int64_t>(of.id);
      const Samples& source = walk->samples(of.source);
      const SamplePlace place = place_of(source, sample);
      Json& line = samples.emplace_back(Json::object());
      if (const std::string& name = order.sources[of.source].name; !name.empty()) line["source"] = name;
      line.update({{"id", of.id}, {"file", place.file}, {"token", place.token}, {"targets", targets}});
      if (options.text)
        line["text"] = (options.json ? beginning_of : shown_beginning_of)(source, sample, tokenizer.get());
    }
    const Json line = as_json(step + 1, at, samples);
    if (options.json)
      fmt::print("{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
    else
      print_text(line);
  }
}

}  // namespace llmc
