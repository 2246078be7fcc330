#include "trainer/commands/tune.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "files/durable_file.h"
#include "math/tuning.h"
#include "trainer/startup/values.h"

namespace llmc {
namespace {

/// Writes tuned.json next to the trainer.
constexpr Writer kTuneWriter{Exit::usage, "folder for the trainer, by llmc compile -o"};

/// Runs of each GEMM per micro-batch of training.
std::map<std::string, std::int64_t> launches(const char* plan_json) {
  std::map<std::string, std::int64_t> times;
  const auto plan = nlohmann::json::parse(plan_json);
  for (const auto& launch : plan.at("launches"))
    if (launch.at("kind") == "gemm") times[launch.at("runs")] += launch.at("times").get<std::int64_t>();
  return times;
}

void tune_all_products(const ProgramInfo& info, int device_index, const TuneHow& how) {
  Device device(device_index, 0);
  const auto times = launches(info.plan_json);
  double first = 0, best = 0;
  bool begun = false;
  const auto report = [&](const TunedProduct& p) {
    if (!begun) {
      fmt::print("{}{}\n{:<24} {:>10} {:>10} {:>10} {:>8} {:>9}\n", device.description(),
                 how.reserved_sms ? fmt::format(", but for {} SMs that are reserved", how.reserved_sms) : "", "product",
                 "algorithms", "first, ms", "best, ms", "gain", "TFLOP/s");
    }
    begun = true;
    const double flops =
        2.0 * static_cast<double>(p.shape.m) * static_cast<double>(p.shape.n) * static_cast<double>(p.shape.k);
    fmt::print("{:<24} {:>10} {:>10.4f} {:>10.4f} {:>7.1f}% {:>9.1f}\n", p.shape.name, p.candidates, p.first_ms,
               p.best_ms, 100 * (p.first_ms / p.best_ms - 1), flops / p.best_ms / 1e9);
    std::fflush(stdout);
    if (const auto n = times.find(p.shape.name); n != times.end()) {
      first += static_cast<double>(n->second) * p.first_ms;
      best += static_cast<double>(n->second) * p.best_ms;
    }
  };
  const std::string text = tune_products(device, info.products, info.math_workspace_bytes(), how, report);
  write_file_atomically(tuned_file(), text, kTuneWriter);
  fmt::print("products of a micro-batch: {:.3f} ms as the library suggests, {:.3f} ms tuned; written to {}\n", first,
             best, tuned_file().string());
}

/// Opens its own device, so that the GEMMs' memory has been freed.
void tune_backward(const ProgramInfo& info, const AttentionPlan& plan, int device_index, const TuneHow& how) {
  Device device(device_index, 0);
  const int window = plan.shape.window;
  fmt::print("{:<24} {:>13} {:>12}\n", window ? fmt::format("backward, window {}", window) : "attention backward",
             "predicted, ms", "measured, ms");
  const auto report = [](const TunedAttention& way) {
    fmt::print("{:<24} {:>13} {:>12.4f}{}\n", way.name,
               way.predicted_ms > 0 ? fmt::format("{:.4f}", way.predicted_ms) : "unknown", way.ms,
               way.taken ? "  taken" : "");
  };
  write_file_atomically(tuned_file(), tune_attention(device, plan, info.math_workspace_bytes(), how, report),
                        kTuneWriter);
}

}  // namespace

void tune(const ProgramInfo& info, int device_index, double sustained_ms) {
  const TuneHow all{0, sustained_ms};
  tune_all_products(info, device_index, all);
  // With several ranks the same GEMMs run on fewer SMs.
  if (const auto reserved = static_cast<int>(built_values(info, "").spec.parallel.reserved_sms))
    tune_all_products(info, device_index, {reserved, sustained_ms});
  for (const AttentionPlan* plan = info.attention; plan; plan = plan->next)
    if (attention_has_choice(*plan))
      tune_backward(info, *plan, device_index, all);
    else if (plan->ways.size() > 1)
      fmt::print("{}\n", describe_attention(*plan));
}

}  // namespace llmc
