// Which of its algorithms the library of matrix products uses for a shape, and which backward pass attention takes:
// measured by `trainer tune`, kept in a file beside the trainer, read when products and attention are built.
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

/// tuned.json beside the executable.
inline std::filesystem::path tuned_file() { return executable_folder() / "tuned.json"; }

/// How `trainer tune` times.
struct TuneHow {
  int reserved_sms = 0;         // as products are run beside collectives
  double sustained_ms = 200.0;  // for which each of the fastest is timed again, at least; 0: not
};

/// What timing has shown for one product.
struct TunedProduct {
  const GemmShape& shape;
  int candidates;  // algorithms that the library offers
  float first_ms;  // of the heuristics' first choice: the median time of a launch
  float best_ms;   // of the algorithm to use: the fastest one, or the first where that gains 2 % or less
};

/// Times up to 32 algorithms of kUntunedWorkspace and up to 32 of `workspace_bytes` for each distinct shape on normal
/// random numbers, then the first and the fastest three again while the device is warm; reports each product, and
/// returns what tuned_file() is to hold: what it holds now, with the winners for this device and library in place of
/// earlier ones. `workspace_bytes`: as the products will have. Throws Failure(usage) where the library has no choice to
/// make, Failure(toolchain) where the file is damaged.
std::string tune_products(Device& device, std::span<const GemmShape> products, std::size_t workspace_bytes,
                          const TuneHow& how, const std::function<void(const TunedProduct&)>& report);

/// One line for the log: how many shapes the file decides here. Empty where the library has no choice to make.
std::string describe_tuning(std::span<const GemmShape> products, std::size_t workspace_bytes, int reserved_sms);

/// What timing has shown for one way through attention's backward pass.
struct TunedAttention {
  std::string name;     // "cuDNN 9.19.0", "llmc's kernels"
  double predicted_ms;  // 0 where no rates are known
  float ms;             // the median time of a layer and micro-batch
  bool taken;
};

/// Times each of the plan's two ways on normal random numbers, reports each, and returns what tuned_file() is to hold,
/// as tune_products() does. The plan's first way stays unless the other takes more than 2 % less.
std::string tune_attention(Device& device, const AttentionPlan& plan, std::size_t workspace_bytes, const TuneHow& how,
                           const std::function<void(const TunedAttention&)>& report);

/// For the log: which backward pass attention takes here, and why.
std::string describe_attention(const AttentionPlan& plan);

}  // namespace llmc
