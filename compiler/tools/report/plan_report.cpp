#include "compiler/tools/report/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "compiler/plan/live.h"
#include "compiler/plan/schedule_walk.h"
#include "compiler/tools/report/disk_report.h"
#include "compiler/tools/report/length_report.h"
#include "compiler/tools/report/product_report.h"
#include "compiler/tools/report/time_report.h"
#include "math/gemm_text.h"
#include "spec/recompute.h"
#include "spec/values.h"
#include "text/plural.h"

namespace llmc::report {

using plan::Plan;

std::string human_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  // Compares what is printed: 1023.996 is 1024.00.
  while (std::fabs(bytes) >= (unit ? 1023.995 : 1024) && unit < 4) bytes /= 1024, ++unit;
  return unit ? fmt::format("{:.2f} {}", bytes, kUnits[unit]) : fmt::format("{:.0f} B", bytes);
}

std::string signed_bytes(double bytes) { return (bytes < 0 ? "-" : "+") + human_bytes(std::fabs(bytes)); }

std::string human_count(double count) {
  static constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P"};
  int unit = 0;
  while (std::fabs(count) >= (unit ? 999.995 : 1000) && unit < 5) count /= 1000, ++unit;
  return unit ? fmt::format("{:.2f}{}", count, kUnits[unit]) : fmt::format("{:.0f}", count);
}

namespace {

std::string recompute_words(const spec::Recompute& r) {
  switch (r.kind) {
    case spec::Recompute::Kind::none: return "none";
    case spec::Recompute::Kind::full: return "full";
    case spec::Recompute::Kind::every: return r.every == 1 ? "every layer" : fmt::format("every {} layers", r.every);
    case spec::Recompute::Kind::ops: return fmt::format("{}", fmt::join(r.ops, ", "));
    case spec::Recompute::Kind::layers:
    case spec::Recompute::Kind::automatic: return spec::recompute_text(r);
  }
  return "";
}

constexpr std::size_t kBar = 20;  // characters for the whole arena

std::string bar(std::size_t bytes, std::size_t all) { return std::string((bytes * kBar + all / 2) / all, '#'); }

const char* target_text(spec::TargetKind kind) { return kind == spec::TargetKind::cuda ? "cuda" : "cpu"; }

std::string runs_text(const Plan& plan, const plan::Launch& l) {
  if (l.call != ops::Call::product) return l.what;
  return fmt::format("{} ({})", l.what, product_by(plan, plan.products[l.product]));
}

const char* attention_name(AttentionBy by) { return by == AttentionBy::cudnn ? "cudnn" : "portable"; }

nlohmann::ordered_json attention_json(const Plan& plan) {
  const auto ways = [&](const std::vector<BackwardWay>& list) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const BackwardWay& way : list) {
      const double ms = plan::predicted_ms(way, plan.device);
      json.push_back({{"by", attention_name(way.by)},
                      {"predicted_ms", ms > 0 ? nlohmann::ordered_json(ms) : nullptr},
                      {"workspace_bytes", way.workspace_bytes}});
    }
    return json;
  };
  const auto one = [&](const ops::AttentionChoice& choice) {
    nlohmann::ordered_json json = {{"forward", attention_name(choice.forward)},
                                   {"backward", ways(choice.backward)},
                                   {"left_out", ways(choice.left_out)}};
    if (choice.shape.window) json["window"] = choice.shape.window;
    return json;
  };
  nlohmann::ordered_json json = one(plan.attention.list.front());
  for (std::size_t i = 1; i < plan.attention.list.size(); ++i) json["others"].push_back(one(plan.attention.list[i]));
  return json;
}

/// Lists the backward passes that the trainer can use; empty if the spec names one.
std::string attention_text(const ops::AttentionChoice& choice, const devices::Device& device) {
  if (choice.backward.size() + choice.left_out.size() < 2) return "";
  std::string out = choice.shape.window
                        ? fmt::format("attention backward, window {}, deterministic: ", choice.shape.window)
                        : "attention backward, deterministic: ";
  out += choice.left_out.empty() ? "the trainer contains both and starts with the first; trainer tune measures them\n"
                                 : "memory.budget has room for only one\n";
  const auto line = [&](const BackwardWay& way, const char* end) {
    const double ms = plan::predicted_ms(way, device);
    out += fmt::format(
        "  {:<9} {:>9} of workspace, {}{}\n", way.by == AttentionBy::cudnn ? "cuDNN" : "llmc's",
        human_bytes(static_cast<double>(way.workspace_bytes)),
        ms > 0 ? fmt::format("{:.2f} ms a layer predicted", ms) : "no rates are known for this target.arch", end);
  };
  for (const BackwardWay& way : choice.backward) line(way, "");
  for (const BackwardWay& way : choice.left_out) line(way, ": left out");
  return out + "\n";
}

/// Names a bucket of the flat buffers.
std::string bucket_name(const Plan& plan, std::size_t bucket) {
  for (const auto& [block, first] : plan.parameters.first_bucket) {
    if (block == graph::Block::layer && bucket >= first &&
        bucket - first < static_cast<std::size_t>(plan.graph.layers()))
      return fmt::format("layer {}", bucket - first);
    if (first == bucket) return block == graph::Block::none ? "vectors" : name_of(block);
  }
  return "";
}

std::int64_t world(const Plan& plan) { return plan.spec.parallel.world_size; }

/// Returns the passes that a collective overlaps. On cpu every call blocks until it is done.
plan::Overlap overlap(const Plan& plan, const plan::Launch& l) {
  if (!l.beside || plan.spec.target.kind != spec::TargetKind::cuda) return {};
  return plan::overlap_of(plan.schedule, l.region_index);
}

const char* overlap_text(const plan::Overlap& overlap) {
  if (overlap.forward) return overlap.backward ? "overlaps forward and backward" : "overlaps forward";
  return overlap.backward ? "overlaps backward" : overlap.optimizer ? "overlaps the optimizer" : "exposed";
}

nlohmann::ordered_json ranks_json(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  const auto ranks = static_cast<int>(world(plan));
  Json buckets = Json::array(), collectives = Json::array();
  for (std::size_t i = 0; i < plan.parameters.buckets.size(); ++i) {
    const Bucket& bucket = plan.parameters.buckets[i];
    buckets.push_back({{"name", bucket_name(plan, i)},
                       {"offset", bucket.offset},
                       {"elements", bucket.elements},
                       {"share", share_of(bucket.elements, ranks, plan.parameters.share_unit)}});
  }
  for (const plan::Launch& l : plan.launches)
    if (l.call == ops::Call::collective && l.times)
      collectives.push_back({{"region", l.region},
                             {"op", l.op},
                             {"runs", l.what},
                             {"times", plan.times_a_step(l)},
                             {"sent_bytes", l.wire},
                             {"beside_compute", overlap(plan, l).any()}});
  return {{"world_size", ranks},
          {"shard", spec::text_of("parallel.shard", plan::chosen_spec(plan))},
          {"micro_batches_of_a_rank", plan.rank_micro_batches()},
          {"buckets", buckets},
          {"collectives", collectives},
          {"sent_bytes_per_step", plan.cost.wire_bytes_per_step}};
}

/// Describes what several ranks do together; empty for one.
std::string ranks_text(const Plan& plan) {
  const std::int64_t ranks = world(plan);
  if (ranks == 1) return "";
  double beside = 0;
  std::string lines;
  for (const plan::Launch& l : plan.launches) {
    if (l.call != ops::Call::collective || !l.times) continue;
    const plan::Overlap passes = overlap(plan, l);
    if (passes.any()) beside += l.wire * static_cast<double>(plan.times_a_step(l));
    lines += fmt::format("  {:<26} {:<38} {:>6} {:>12}  {}\n", l.region, l.what == l.op ? l.what : l.what + " " + l.op,
                         fmt::format("{}/{}", l.times, l.per_step ? "step" : "pass"), human_bytes(l.wire),
                         overlap_text(passes));
  }
  const auto most = std::max_element(plan.parameters.buckets.begin(), plan.parameters.buckets.end(),
                                     [](const Bucket& a, const Bucket& b) { return a.elements < b.elements; });
  return fmt::format(
      "ranks: {}, shard {}; of {} micro-batches a rank runs at most {}; it sends {} a step, {} of it overlapped with "
      "compute\n  {:<26} {:<38} {:>6} {:>12}\n{}  {} buckets, the largest {} parameters, of which a rank has {}\n\n",
      ranks, spec::text_of("parallel.shard", plan::chosen_spec(plan)), plan.micro_batches(), plan.rank_micro_batches(),
      human_bytes(plan.cost.wire_bytes_per_step), human_bytes(beside), "region", "runs", "times", "sent", lines,
      plan.parameters.buckets.size(), human_count(static_cast<double>(most->elements)),
      human_count(static_cast<double>(share_of(most->elements, static_cast<int>(ranks), plan.parameters.share_unit))));
}

/// The work of each region of the step, in its order, by any number of ranks (step/timeline.h); and what it begins
/// and ends to keep.
nlohmann::ordered_json regions_json(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  const std::vector<plan::RegionLife> lives = plan::region_lives(plan);
  const std::set<std::size_t> sent = plan::sent_regions(plan.schedule);
  Json regions = Json::array();
  for (std::size_t r = 0; r < lives.size(); ++r) {
    const graph::Region& region = plan.graph.regions[r];
    Json launches = Json::array();
    for (const plan::Launch& l : plan.launches)
      if (l.region_index == r)
        launches.push_back({{"op", l.op},
                            {"runs", l.what},
                            {"launched_as", l.launched_as()},
                            {"transient_bytes", plan.layout.alive[r][l.op_index]}});
    regions.push_back({{"name", region.name},
                       {"opens_bytes", lives[r].opens},
                       {"frees_bytes", lives[r].frees},
                       {"beside", sent.contains(r)},
                       {"launches", launches}});
  }
  return regions;
}

bool has_windows(const Plan& plan) {
  return std::ranges::any_of(plan.graph.kinds, [](const graph::LayerKind& kind) { return kind.window > 0; });
}

struct LayersOfWindow {
  int window;  // 0: no window
  std::int64_t layers;
};

/// Returns the number of layers of each window, in the order of first layers.
std::vector<LayersOfWindow> windows_of(const Plan& plan) {
  std::vector<LayersOfWindow> windows;
  for (const graph::LayerKind& kind : plan.graph.kinds) {
    const auto known = std::ranges::find(windows, kind.window, &LayersOfWindow::window);
    if (known == windows.end())
      windows.push_back({kind.window, 1});
    else
      ++known->layers;
  }
  return windows;
}

nlohmann::ordered_json windows_json(const Plan& plan) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [window, layers] : windows_of(plan)) list.push_back({{"window", window}, {"layers", layers}});
  return list;
}

/// Prints "8 layers attend to 512 tokens, 8 to all" on a separate line; empty if all layers attend to all.
std::string windows_text(const Plan& plan) {
  if (!has_windows(plan)) return "";
  std::string text;
  for (const auto& [window, layers] : windows_of(plan))
    text += fmt::format("{}{} layer{} attend{} to {}", text.empty() ? "" : ", ", layers, plural(layers),
                        layers == 1 ? "s" : "",
                        window ? fmt::format("{} token{}", window, plural(window)) : "all tokens before");
  return text + "\n";
}

nlohmann::ordered_json product_json(const Plan& plan, const plan::Product& p) {
  nlohmann::ordered_json product = {{"name", p.name},
                                    {"m", p.shape.m},
                                    {"n", p.shape.n},
                                    {"k", p.shape.k},
                                    {"operands", operands_text(p.shape)},
                                    {"result", name_of(p.shape.result)},
                                    {"by", product_by(plan, p)},
                                    {"bytes", p.bytes},
                                    {"flops", p.flops}};
  if (plan.spec.target.kind == spec::TargetKind::cuda) product["tuned_key"] = tuned_key(p.shape);
  if (p.shape.alpha != 1) product["alpha"] = p.shape.alpha;
  if (p.shape.beta != 1) product["beta"] = p.shape.beta;
  if (p.shape.scaling != Scaling::none) product["scaling"] = name_of(p.shape.scaling);
  if (p.shape.tf32) product["tf32"] = true;
  if (p.shape.fast_accumulation) product["fast_accumulation"] = true;
  return product;
}

}  // namespace

nlohmann::ordered_json plan_json(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  const spec::Spec& s = plan.spec;
  Json j;
  j["name"] = s.name;
  j["fingerprint"] = plan.fingerprint;
  j["target"] = {{"kind", target_text(s.target.kind)}, {"arch", s.target.arch}};
  j["compute"] = name_of(s.compute);
  j["residual"] = name_of(s.residual);
  j["matmul"] = spec::text_of("precision.matmul", s);
  j["batch"] = {{"sequence_length", s.batch.sequence_length},
                {"micro_batch", plan.choice.micro_batch},
                {"micro_batches", plan.micro_batches()},
                {"tokens", s.batch.tokens}};
  if (has_windows(plan)) j["windows"] = windows_json(plan);
  j["recompute"] = recompute_words(plan::chosen_spec(plan).memory.recompute);
  j["loss_chunk"] = plan.choice.loss_chunk;
  j["parameters"] = plan.parameters.logical;
  Json sections = Json::array();
  for (const plan::Section& section : plan.layout.sections)
    sections.push_back(
        {{"name", section.name}, {"offset", section.offset}, {"bytes", section.bytes}, {"what", section.what}});
  Json buffers = Json::array();
  for (const plan::HostBuffer& buffer : plan.layout.buffers)
    buffers.push_back({{"name", buffer.name},
                       {"dtype", name_of(buffer.dtype)},
                       {"elements", buffer.elements},
                       {"use", name_of(buffer.use)},
                       {"sharded", is_sharded(buffer.use, s.parallel.shard)},
                       {"offset", buffer.offset}});
  const plan::Live live = plan::live_bytes(plan);
  j["memory"] = {{"arena_bytes", plan.layout.bytes},
                 {"process_bytes", plan.process_bytes},
                 {"budget_bytes", s.memory.budget},
                 {"snapshot_bytes", snapshot_bytes(plan)},
                 {"transient_bytes", plan.layout.transient_bytes},
                 {"transient_lower_bound", plan.layout.transient_bound},
                 {"live", {{"fixed_bytes", live.fixed}, {"peak_bytes", live.peak}}},
                 {"sections", sections},
                 {"buffers", buffers}};
  if (s.target.kind == spec::TargetKind::cuda) j["attention"] = attention_json(plan);
  j["disk"] = {{"checkpoint_bytes", checkpoint_bytes(plan)},
               {"most_checkpoints", most_checkpoints(plan)},
               {"most_bytes", most_checkpoints(plan) * checkpoint_bytes(plan)}};
  j["ranks"] = ranks_json(plan);
  j["length"] = length_json(plan);
  add_time(j, plan);
  j["flops"] = {{"model_per_token", plan.cost.model_flops_per_token},
                {"linear_per_token", plan.cost.linear_flops_per_token},
                {"attention_per_token", plan.cost.attention_flops_per_token},
                {"hardware_per_step", plan.cost.hardware_flops_per_step}};
  j["bytes_per_step"] = plan.cost.bytes_per_step;
  j["residual_stream_bytes_per_step"] = plan.cost.stream_bytes_per_step;
  j["launches_per_step"] = plan.cost.launches_per_step;
  Json kernels = Json::array();
  for (const plan::Kernel& k : plan.kernels) {
    Json params = Json::object();
    for (const plan::KernelParam& p : k.params)
      if (p.said) params[p.name] = p.value;
    kernels.push_back({{"name", k.name},
                       {"template", k.template_name},
                       {"params", params},
                       {"bytes", k.rank_bytes()},
                       {"flops", k.rank_flops()}});
  }
  j["kernels"] = kernels;
  Json products = Json::array();
  for (const plan::Product& p : plan.products) products.push_back(product_json(plan, p));
  j["products"] = products;
  Json launches = Json::array();
  for (const plan::Launch& l : plan.launches)
    if (l.own_times())
      launches.push_back({{"region", l.region},
                          {"op", l.op},
                          {"runs", l.what},
                          {"kind", l.kind()},
                          {"times", l.own_times()},
                          {"per", l.per_step ? "step" : "micro-batch"},
                          {"bytes", l.bytes},
                          {"flops", l.flops}});
  j["launches"] = launches;
  j["regions"] = regions_json(plan);
  j["schedule"] = plan::text_lines(plan.schedule, plan.graph);
  return j;
}

std::string recompute_summary(const spec::Recompute& recompute) {
  if (recompute.layers.size() <= kListedRanges) return recompute_words(recompute);
  std::vector<std::pair<std::string, std::int64_t>> counts;  // of layers by value, in the order of the layers
  for (const spec::RecomputeRange& range : recompute.layers) {
    const std::string value = spec::recomputed_text(range);
    auto found = std::ranges::find(counts, value, &std::pair<std::string, std::int64_t>::first);
    if (found == counts.end()) found = counts.insert(found, {value, 0});
    found->second += range.last - range.first + 1;
  }
  std::string text;
  for (const auto& [value, layers] : counts)
    text += fmt::format("{}{} in {} layer{}", text.empty() ? "" : ", ", value, layers, plural(layers));
  return text;
}

std::string plan_text(const Plan& plan) {
  const spec::Spec& s = plan.spec;
  const spec::Model& m = s.model;
  std::string out;
  out += fmt::format("{}: {} parameters, {} layer{}, hidden {}, {}/{} heads of {}, ffn {}, vocabulary {}{}\n", s.name,
                     human_count(static_cast<double>(plan.parameters.logical)), m.num_hidden_layers,
                     plural(m.num_hidden_layers), m.hidden_size, m.num_attention_heads, m.num_key_value_heads,
                     m.head_dim, m.intermediate_size, m.vocab_size, m.tie_word_embeddings ? ", tied" : "");
  out += fmt::format(
      "{} on {}; a step is {} x {} sequence{} of {} = {} token{}; recompute {}; {} row{} of logits at once\n",
      name_of(s.compute), target_text(s.target.kind), plan.micro_batches(), plan.choice.micro_batch,
      plural(plan.choice.micro_batch), s.batch.sequence_length, s.batch.tokens, plural(s.batch.tokens),
      recompute_summary(plan::chosen_spec(plan).memory.recompute), plan.choice.loss_chunk,
      plural(plan.choice.loss_chunk));
  out += windows_text(plan);
  out += matmul_text(plan);
  out += fmt::format("fingerprint {}\n\n", plan.fingerprint);
  const double budget = static_cast<double>(s.memory.budget);
  out += fmt::format("memory: {} ({} bytes) of {}, of which {} are left\n",
                     human_bytes(static_cast<double>(plan.layout.bytes)), plan.layout.bytes, human_bytes(budget),
                     human_bytes(budget - static_cast<double>(plan.needed_bytes())));
  for (const plan::Section& section : plan.layout.sections)
    out += fmt::format("  {:>12}  {:<{}}  {:<26} {}\n", human_bytes(static_cast<double>(section.bytes)),
                       bar(section.bytes, plan.layout.bytes), kBar, section.name, section.what);
  if (plan.process_bytes)
    out += fmt::format("  the process outside the arena takes at most {} of memory.budget: code, libraries, batches\n",
                       human_bytes(static_cast<double>(plan.process_bytes)));
  out += fmt::format("  transients are packed into {}; at least {} are alive at once\n\n",
                     human_bytes(static_cast<double>(plan.layout.transient_bytes)),
                     human_bytes(static_cast<double>(plan.layout.transient_bound)));
  for (const ops::AttentionChoice& choice : plan.attention.list) out += attention_text(choice, plan.device);
  out += ranks_text(plan);
  out += orthogonalising_text(plan);
  out += disk_text(plan) + "\n";
  out += fmt::format(
      "work: {}FLOP a token (linear layers, 6 x weights: {}; causal attention, {}: {}), {}FLOP and {} a step{}, {} "
      "launches\n",
      human_count(plan.cost.model_flops_per_token), human_count(plan.cost.linear_flops_per_token),
      has_windows(plan) ? "the scores of its windows" : "half of the full square",
      human_count(plan.cost.attention_flops_per_token), human_count(plan.cost.hardware_flops_per_step),
      human_bytes(plan.cost.bytes_per_step), world(plan) > 1 ? " of a rank" : "", plan.cost.launches_per_step);
  if (plan.cost.stream_bytes_per_step > 0)
    out += fmt::format("  {} of these bytes are moved only because the residual stream is fp32, not bf16\n",
                       human_bytes(plan.cost.stream_bytes_per_step));
  return out + "\n" + length_text(plan) + time_text(plan);
}

std::string launches_markdown(const Plan& plan) {
  const spec::Spec& s = plan.spec;
  std::string out = fmt::format(
      "# Launches of {0}\n\nWritten by `llmc plan SPEC --launches`: the launches of the emitted step, in order.\n\n"
      "A step of {1} tokens is {2} micro-batches of {3} sequences of {4}, then the optimizer: "
      "{5} launches{6}. Bytes and\n"
      "FLOPs are those of one launch. A tensor counts as read once and written once, and logits as often as they are\n"
      "read. docs/reference/commands.md lists the ops that move more.\n",
      s.name, s.batch.tokens, plan.micro_batches(), plan.choice.micro_batch, s.batch.sequence_length,
      plan.cost.launches_per_step, world(plan) > 1 ? " of a rank" : "");
  for (const bool step : {false, true}) {
    double bytes = 0, flops = 0;
    std::int64_t times = 0;
    out += fmt::format("\n## {}\n\n| region | op | runs | times | bytes | FLOPs |\n|---|---|---|---:|---:|---:|\n",
                       step ? "Once a step" : "A micro-batch");
    for (const plan::Launch& l : plan.launches) {
      if (l.per_step != step || !l.own_times()) continue;
      out += fmt::format("| {} | {} | {} | {} | {:.0f} | {:.0f} |\n", l.region, l.op, runs_text(plan, l), l.own_times(),
                         l.bytes, l.flops);
      const auto n = static_cast<double>(l.own_times());
      times += l.own_times(), bytes += n * l.bytes, flops += n * l.flops;
    }
    out += fmt::format("| all | | | {} | {:.0f} | {:.0f} |\n", times, bytes, flops);
  }
  return out;
}

}  // namespace llmc::report
