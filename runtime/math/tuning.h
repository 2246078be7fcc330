// Tuning of GEMM algorithms and of attention's backward pass: measured by `trainer tune`, stored in a file next to the
// trainer, read when GEMMs and attention are built.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "device/device.h"
#include "host/executable.h"
#include "math/attention.h"
#include "math/gemm.h"

namespace llmc {

/// tuned.json next to the executable.
inline std::filesystem::path tuned_file() { return executable_folder() / "tuned.json"; }

/// Options of `trainer tune`'s timing.
struct TuneHow {
  int reserved_sms = 0;         // SMs left free, as when GEMMs overlap with collectives
  double sustained_ms = 200.0;  // minimum for timing each of the fastest a second time; 0: not
};

/// Timing result of one GEMM.
struct TunedProduct {
  const GemmShape& shape;
  int candidates;  // offered by the library
  float first_ms;  // median time per launch of the heuristics' first choice
  float best_ms;   // of the algorithm to use: the fastest, or the first if that gains 2 % or less
};

/// Times up to 32 algorithms of kUntunedWorkspace and up to 32 of `workspace_bytes` for each distinct shape on normal
/// random numbers. Then times the first and the fastest three once more on a warm device. Reports each GEMM, and
/// returns new content for tuned_file(): its current content, with the winners for this device and library replacing
/// earlier ones. `workspace_bytes`: as the GEMMs will have. Throws Failure(usage) if the library has no choice to make,
/// Failure(toolchain) if the file is damaged.
std::string tune_products(Device& device, std::span<const GemmShape> products, std::size_t workspace_bytes,
                          const TuneHow& how, const std::function<void(const TunedProduct&)>& report);

/// One line for the log: how many shapes the file decides on this device. Empty if the library has no choice to make.
std::string describe_tuning(std::span<const GemmShape> products, std::size_t workspace_bytes, int reserved_sms);

/// Timing result of one variant of attention's backward pass.
struct TunedAttention {
  std::string name;     // "cuDNN 9.19.0", "llmc's kernels"
  double predicted_ms;  // 0 without known rates
  float ms;             // median time per layer and micro-batch
  bool taken;
};

/// Times each of the plan's two variants on normal random numbers, reports each, and returns new content for
/// tuned_file(), like tune_products(). The plan's first variant is kept unless the other takes more than 2 % less.
std::string tune_attention(Device& device, const AttentionPlan& plan, std::size_t workspace_bytes, const TuneHow& how,
                           const std::function<void(const TunedAttention&)>& report);

/// Whether this device and this release of its library leave a choice between the plan's variants.
bool attention_has_choice(const AttentionPlan& plan);

/// For the log: the backward pass that attention uses here, and the reason.
std::string describe_attention(const AttentionPlan& plan);

}  // namespace llmc
