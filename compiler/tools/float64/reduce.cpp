#include "compiler/tools/float64/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "compiler/tools/dataset/shard_writer.h"
#include "compiler/tools/float64/arithmetic.h"
#include "files/durable_file.h"
#include "spec/targets.h"
#include "text/plural.h"

namespace llmc::float64 {

namespace {

/// Keeps one layer of each variant, and at least two layers if there are two.
void take_layers(spec::Spec& spec, const plan::Plan& plan) {
  const std::vector<int>& variants = plan.graph.variants;
  std::vector<std::size_t> taken;
  for (std::size_t layer = 0; layer < variants.size(); ++layer)
    if (std::ranges::find(variants, variants[layer]) - variants.begin() == static_cast<std::ptrdiff_t>(layer))
      taken.push_back(layer);
  if (taken.size() < 2 && variants.size() > 1) taken.push_back(taken.front());
  std::vector<graph::RecomputeGroups> recompute;
  std::vector<std::string> types;
  spec::LayerSet no_rope;
  for (const std::size_t layer : taken) {
    if (!plan.graph.kinds[layer].rope) no_rope.layers.push_back(static_cast<std::int64_t>(types.size()));
    recompute.push_back(plan.choice.recompute[layer]);
    types.emplace_back(plan.spec.model.slides(static_cast<std::int64_t>(layer)) ? spec::kSlidingAttention
                                                                                : spec::kFullAttention);
  }
  spec.memory.recompute = passes::recompute_from(recompute, spec.model);
  spec.model.num_hidden_layers = static_cast<std::int64_t>(taken.size());
  // Those of the first layers come first, and one kept of either end stands for all.
  const auto is_fp8 = [&](std::size_t layer) { return !plan.graph.kinds[layer].wide_products; };
  spec.fp8.first_layers = std::ranges::find_if(taken, is_fp8) - taken.begin();
  spec.fp8.last_layers = std::find_if(taken.rbegin(), taken.rend(), is_fp8) - taken.rbegin();
  spec.model.no_rope_layers = no_rope;
  if (std::ranges::find(types, spec::kSlidingAttention) == types.end()) spec.model.sliding_window = 0;
  if (spec.model.sliding_window) spec.model.layer_types = std::move(types);
}

/// Returns the largest loss chunk of a pass up to `chosen`: a divisor of its rows, or all rows if such divisors are so
/// small that most of the time would go to launches.
std::int64_t chunk_of(const spec::Spec& spec, std::int64_t chosen) {
  const std::int64_t rows = spec.batch.micro_batch * spec.batch.sequence_length, least = (chosen + 3) / 4;
  if (rows <= chosen) return rows;
  for (std::int64_t chunk = chosen; chunk >= least; --chunk)
    if (rows % chunk == 0 && chunk % spec::chunk_multiple(spec) == 0) return chunk;
  return rows;
}

}  // namespace

Reduction reduce(const spec::Spec& spec, const plan::Plan& plan, std::int64_t steps, const std::string& data,
                 bool short_pass) {
  Reduction reduced{spec, {}};
  spec::Spec& s = reduced.spec;
  const auto less = [&](std::int64_t now, std::int64_t before, const char* what) {
    if (now < before) reduced.said.push_back(fmt::format("{} of {} {}", now, before, what));
  };
  take_layers(s, plan);
  less(s.model.num_hidden_layers, spec.model.num_hidden_layers, "layers");
  const std::int64_t micro_batches = std::min<std::int64_t>(2, plan.micro_batches());
  // Weight gradients in fp8 are sums over a multiple of 16 or 32 tokens.
  const std::int64_t multiple = s.fp8_multiple(),
                     least = s.has_fp8_weight_gradients() ? multiple / std::gcd(multiple, s.batch.sequence_length) : 1;
  s.batch.micro_batch = short_pass ? least : plan.choice.micro_batch;
  less(s.batch.micro_batch, plan.choice.micro_batch, "sequences of a micro-batch");
  less(micro_batches, plan.micro_batches(), "micro-batches of a step");
  s.batch.tokens = micro_batches * s.batch.micro_batch * s.batch.sequence_length;
  s.memory.loss_chunk = chunk_of(s, plan.choice.loss_chunk);
  s.schedule.steps = steps;
  s.schedule.tokens = {};
  s.phase = {};
  s.schedule.from_step = 0;
  less(steps, spec.schedule.steps, "steps");
  const double decaying = s.schedule.kind == spec::ScheduleKind::wsd ? s.schedule.decay_fraction : 0;
  s.schedule.warmup_steps = std::min(
      {s.schedule.warmup_steps, steps - 1, static_cast<std::int64_t>((1 - decaying) * static_cast<double>(steps))});
  less(1, spec.parallel.world_size, "ranks");
  s.parallel.world_size = 1;
  s.parallel.shard = plan::chosen_spec(plan).parallel.shard;
  s.parallel.shard_automatic = false;
  s.parallel.compare_every = 0;
  s.parallel.reserved_sms = 0;
  s.init.from.clear();
  s.data.tokenizer.clear();
  s.data.train = {data, "llmc"};
  s.data.mixture.clear();
  s.data.documents.separator = std::max<std::int64_t>(s.data.documents.separator, 0);
  s.data.validation = {};
  s.data.validation_sets.clear();
  s.evaluation = {};
  s.audit = {};
  s.sampling.every = 0;
  s.sampling.prompts.clear();
  s.checkpoint.every = s.checkpoint.keep_every = 0;
  s.checkpoint.best = "none";
  s.checkpoint.mirror.clear();
  s.checkpoint.mirror_every = 0;
  s.metrics.product_share = false;
  s.guards.rollback = false;
  s.guards.log_text = false;
  return reduced;
}

std::string write_tokens(const plan::Plan& plan, std::int64_t steps, const std::filesystem::path& folder) {
  make_directories(folder, {Exit::usage, "-o"});
  const std::int64_t vocabulary = plan.spec.model.vocab_size;
  const std::int64_t count = steps * plan.spec.batch.tokens + 1;
  std::mt19937_64 draws(plan.spec.data.seed);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  // Documents have 16 tokens on average, so that a tile of attention has borders and a sequence has several tiles.
  const spec::Documents& documents = plan.spec.data.documents;
  const bool divided = documents.mask || documents.mask_first;
  for (std::int32_t& token : tokens) {
    token = static_cast<std::int32_t>(draws() % static_cast<std::uint64_t>(vocabulary));
    if (divided && draws() % 16 == 0) token = static_cast<std::int32_t>(documents.separator);
  }
  data::ShardWriter writer(folder, "train", vocabulary > 65536, std::int64_t{1} << 30);
  writer.append(tokens);
  writer.finish();
  return (folder / "train-*.bin").string();
}

namespace {

/// Names what a step of training runs, in words that are the same for the same kernel.
std::vector<std::pair<std::string, std::string>> kernels_of(const plan::Plan& plan) {
  std::vector<std::pair<std::string, std::string>> kernels;
  const auto add = [&](std::string name, std::string key) {
    if (std::find(kernels.begin(), kernels.end(), std::pair(name, key)) == kernels.end())
      kernels.emplace_back(std::move(name), std::move(key));
  };
  for (const plan::Launch& l : plan.launches) {
    if (l.times == 0 || l.call == ops::Call::collective) continue;
    if (l.call == ops::Call::kernel || is_in_attention(l.call))
      add(plan.kernels[l.kernel].name, plan.kernels[l.kernel].key());
    if (l.call == ops::Call::product) add(plan.products[l.product].name, plan.products[l.product].key());
  }
  return kernels;
}

}  // namespace

Shared shared_kernels(const plan::Plan& plan, const plan::Plan& reduced) {
  const auto ours = kernels_of(plan), theirs = kernels_of(reduced);
  Shared shared{0, ours.size(), {}};
  for (const auto& kernel : ours)
    if (std::find(theirs.begin(), theirs.end(), kernel) != theirs.end())
      ++shared.same;
    else
      shared.others.push_back(kernel.first);
  return shared;
}

double memory_of(const plan::Plan& reduced, bool with_rounding) {
  constexpr double kOfParameter = 150, kOfRounding = 5 * 8;  // weight, gradient, moments and copies once more
  const double wider = reduced.spec.compute == DType::f32 ? 2 : 4, runs = with_rounding ? 2 : 1;
  return (kOfParameter + (with_rounding ? kOfRounding : 0)) * static_cast<double>(reduced.parameters.elements) +
         (runs * wider + 1) * static_cast<double>(reduced.layout.bytes);
}

double arithmetic_of(const plan::Plan& reduced, std::int64_t steps) {
  return 2 * static_cast<double>(steps) * reduced.cost.hardware_flops_per_step;
}

double estimated_seconds(double flops) {
  constexpr std::int64_t kSize = 384;
  std::vector<double> a(kSize * kSize, 1.0), b = a, d = a;
  const auto matrix = [](std::vector<double>& m) { return Matrix{m.data(), kSize, kSize, kSize}; };
  double seconds = 1e9;
  for (int turn = 0; turn < 3; ++turn) {
    const auto begin = std::chrono::steady_clock::now();
    multiply(matrix(a), false, matrix(b), false, matrix(d), false);
    seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return flops * seconds / (2.0 * kSize * kSize * kSize);
}

}  // namespace llmc::float64
