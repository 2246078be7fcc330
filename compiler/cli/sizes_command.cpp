#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/cli/commands.h"
#include "compiler/cli/device_overrides.h"
#include "compiler/cli/specs.h"
#include "compiler/devices/device.h"
#include "compiler/plan/plan.h"
#include "compiler/tools/report/plan_report.h"
#include "compiler/tools/report/time_report.h"
#include "error.h"
#include "program/shards.h"
#include "spec/scalars.h"
#include "spec/targets.h"
#include "spec/values.h"
#include "text/message.h"
#include "text/option_checks.h"

namespace llmc::cli {

namespace {

struct SizesOptions {
  std::string device = "h100-sxm", tokens = "20G";
  int world = 1;
  std::int64_t sequence = 2048, vocabulary = 32768;
  double price = 0;
  bool json = false;
};

constexpr std::int64_t kMostTokens = 1'000'000'000'000'000;  // most tokens that a schedule of steps accepts

/// Widths and depths of published Llama models, from 0.1 to 70 billion parameters.
struct Shape {
  std::int64_t hidden, layers, heads, key_heads, ffn;
};
constexpr Shape kShapes[] = {
    {768, 12, 12, 4, 2048},   {1024, 16, 16, 4, 2816},  {1280, 20, 20, 5, 3584},  {1536, 24, 12, 4, 4096},
    {2048, 16, 16, 8, 8192},  {2048, 24, 16, 8, 5632},  {3072, 28, 24, 8, 8192},  {4096, 32, 32, 8, 14336},
    {5120, 40, 40, 8, 13824}, {6144, 48, 48, 8, 16384}, {8192, 64, 64, 8, 22016}, {8192, 80, 64, 8, 28672},
};

/// Returns the sequences of a step: about half a million tokens, more for larger models, divisible by the number of
/// ranks.
std::int64_t sequences_of_a_step(const Shape& shape, const SizesOptions& options) {
  const double wanted = shape.hidden < 4096 ? 512 * 1024 : 4 * 1024 * 1024;
  const auto each = static_cast<std::int64_t>(
      std::exp2(std::max(0.0, std::round(std::log2(wanted / static_cast<double>(options.sequence * options.world))))));
  return each * options.world;
}

spec::Spec spec_of(const Shape& shape, const SizesOptions& options, const devices::Device& device,
                   std::int64_t tokens) {
  const std::int64_t sequences = sequences_of_a_step(shape, options), step = sequences * options.sequence;
  const bool cuda = device.kind == spec::TargetKind::cuda;
  const std::string text = fmt::format(
      "name: size\n"
      "model: {{vocab_size: {}, hidden_size: {}, num_hidden_layers: {}, num_attention_heads: {}, num_key_value_heads: "
      "{}, intermediate_size: {}, tie_word_embeddings: {}}}\n"
      "precision: {{compute: bf16}}\n"
      "batch: {{sequence_length: {}, micro_batch: auto, tokens: {}}}\n"
      "memory: {{budget: {}, recompute: auto, loss_chunk: auto}}\n"
      "schedule: {{steps: {}}}\n"
      "data: {{train: [{{path: none.bin}}]}}\n"
      "parallel: {{world_size: {}, shard: auto}}\n"
      "target: {{kind: {}{}}}\n",
      options.vocabulary, shape.hidden, shape.layers, shape.heads, shape.key_heads, shape.ffn, shape.hidden <= 2048,
      options.sequence, step,
      static_cast<std::int64_t>(device[devices::Figure::memory]) -
          (cuda && options.world > 1 ? spec::kMemoryOfNccl : 0),
      std::max<std::int64_t>(1, (tokens + step - 1) / step), options.world, cuda ? "cuda" : "cpu",
      !cuda ? "" : fmt::format(", arch: [{}]", spec::arch_of_capability(device.arch)));
  const spec::LoadResult loaded = spec::load_text(text, "a model of `llmc sizes`");
  if (!loaded.resolved) throw InvalidSpec(spec::render(loaded.diagnostics, colour_on(2)));
  spec::Spec spec = loaded.resolved->spec;
  spec.target.device = options.device;
  return spec;
}

nlohmann::ordered_json row_json(const Shape& shape, const std::optional<plan::Plan>& plan,
                                const SizesOptions& options) {
  nlohmann::ordered_json row = {{"hidden_size", shape.hidden},
                                {"num_hidden_layers", shape.layers},
                                {"intermediate_size", shape.ffn},
                                {"fits", plan.has_value()}};
  if (!plan) return row;
  report::add_time(row, *plan);
  for (const char* key : {"device", "time", "alternatives", "version"}) row.erase(key);
  row["parameters"] = plan->parameters.logical;
  row["arena_bytes"] = plan->layout.bytes;
  if (options.price > 0)
    row["cost"] = row.at("run_seconds").get<double>() / 3600 * options.price * static_cast<double>(options.world);
  return row;
}

/// Below a hundred with two decimals.
std::string cost_text(double cost) { return fmt::format(" {:>9.{}f}", cost, cost < 100 ? 2 : 0); }

std::string row_text(const Shape& shape, const nlohmann::ordered_json& row) {
  const std::string name = fmt::format("{:>6} {:>6} {:>6}", shape.hidden, shape.layers, shape.ffn);
  if (!row.at("fits").get<bool>()) return name + "  does not fit\n";
  const auto& choice = row.at("choice");
  std::string line = fmt::format(
      "{} {:>9} {:>10} {:>9.0f} {:>5.1f}% {:>10}{}  micro_batch {}, shard {}, recompute {}", name,
      report::human_count(row.at("parameters").get<double>()), report::human_bytes(row.at("arena_bytes").get<double>()),
      row.at("tokens_per_second").get<double>(), 100 * row.at("mfu").get<double>(),
      report::human_seconds(row.at("run_seconds").get<double>()),
      row.contains("cost") ? cost_text(row.at("cost").get<double>()) : "", choice.at("micro_batch").get<std::int64_t>(),
      choice.at("shard").get<std::string>(), choice.at("recompute").get<std::string>());
  return line + "\n";
}

void sizes(const SizesOptions& options) {
  const auto tokens = spec::parse_integer(options.tokens).value;
  if (!tokens || *tokens < 1 || *tokens > kMostTokens)
    throw Failure(Exit::usage,
                  fmt::format("--tokens takes a whole number such as 20G, at most 1000000G, not '{}'", options.tokens));
  const devices::Device device = device_of_option(options.device);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!options.json)
    fmt::print(
        "{} tokens in sequences of {} on {} x {}, vocabulary {}, as planned:\n{:>6} {:>6} {:>6} {:>9} {:>10} {:>9} "
        "{:>6} {:>10}{}  {}\n",
        report::human_count(static_cast<double>(*tokens)), options.sequence, options.world, device.name,
        options.vocabulary, "hidden", "layers", "ffn", "weights", "memory", "tokens/s", "MFU", "time",
        options.price > 0 ? fmt::format(" {:>9}", "cost") : "", "choice");
  for (const Shape& shape : kShapes) {
    rows.push_back(row_json(shape, plan::fastest_plan(spec_of(shape, options, device, *tokens)), options));
    if (!options.json) fmt::print("{}", row_text(shape, rows.back()));
  }
  if (options.json) fmt::print("{}\n", rows.dump(2));
}

}  // namespace

void add_sizes_command(CLI::App& app) {
  auto options = std::make_shared<SizesOptions>();
  CLI::App* command =
      app.add_subcommand("sizes", "show which models one or more devices can train, how fast and at what price");
  command->add_option("--device", options->device, "a device that `llmc devices` lists, or a file (default h100-sxm)");
  command->add_option("--world", options->world, "number of devices (default 1)")->check(CLI::Range(1, kMostRanks));
  command->add_option("--tokens", options->tokens, "tokens to train on (default 20G: 20 billion)");
  command->add_option("--sequence-length", options->sequence, "tokens in a sequence (default 2048)")
      ->check(CLI::Range(64, 1 << 20));
  command->add_option("--vocab-size", options->vocabulary, "tokens of the tokenizer (default 32768)")
      ->check(CLI::Range(256, 1 << 20));
  command->add_option("--price", options->price, "price of a device-hour")->check(finite_above(0, kMostPrice));
  command->add_flag("--json", options->json, "print the rows as JSON on standard output");
  command->footer("Example: llmc sizes --device h100-sxm --world 8 --tokens 100G --price 2.5");
  command->callback([options] { sizes(*options); });
}

}  // namespace llmc::cli
