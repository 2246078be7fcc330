// Predicts the time of a launch on a device, with one formula for each kind of call.
#pragma once

#include <string>

#include "compiler/plan/plan.h"
#include "device/mask.h"

namespace llmc::plan {

/// The largest part of a launch's time.
enum class Bottleneck { compute, memory, launch, link };
const char* name_of(Bottleneck bound);

struct Price {
  double seconds = 0;
  Bottleneck bound = Bottleneck::compute;
};

/// Prices one launch on one rank of plan.device. `formula`: if given, receives the formula with its numbers.
///   product     (c^1.5 + m^1.5)^(1/1.5) + launch: c = FLOPs of whole waves of tiles / product rate, m = bytes / copy
///               if the device file has rates by size: FLOPs / rate at m, n, k + bytes beyond a plain product / copy
///   attention   scores x seconds of a score at this head_dim (a line through 64 and 128) + launch; predicted_ms() of a
///               backward pass with known rates replaces the former
///   kernel      bytes / copy, or cache_copy if a cache holds them, + launch; the device file's rates of kernels
///               replace these
///   collective  bytes sent / the slowest link of the ring + its messages' latency
Price price(const Plan& plan, const Launch& launch, std::string* formula = nullptr);

/// Returns the ms of a layer's backward pass on a device; 0 without known rates.
double predicted_ms(const BackwardWay& way, const devices::Device& device);

/// Returns the scores that attention computes for a head of a sequence: those of the mask, plus, on a cpu, some at the
/// mask's edges. There the queries of a tile share one range of keys, which adds about 32 scores per query and edge
/// (causal: one edge). With these scores, one rate fits all lengths: counted as half of the square, bf16 at head_dim 64
/// runs at 199, 242 and 288 GFLOP/s at 128, 512 and 2,048 tokens.
double computed_scores(spec::TargetKind kind, const Mask& mask);

}  // namespace llmc::plan
