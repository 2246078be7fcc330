// What a launch is predicted to take on a device: one formula for each way of running, in one place.
#pragma once

#include <string>

#include "compiler/plan/plan.h"
#include "device/mask.h"

namespace llmc::plan {

/// What a launch's time is mostly made of.
enum class Bound { compute, memory, launch, link };
const char* name_of(Bound bound);

struct Price {
  double seconds = 0;
  Bound bound = Bound::compute;
};

/// Of one launch on one rank of plan.device. `formula`: where given, becomes the formula with its numbers in it.
///   product     (c^1.5 + m^1.5)^(1/1.5) + launch: c = FLOPs of whole waves of tiles / product rate, m = bytes / copy
///               where the device file has rates by size: FLOPs / rate at m, n, k + bytes beyond a plain product / copy
///   attention   scores x seconds of a score at this head_dim (a line through 64 and 128) + launch
///   kernel      bytes / copy, or cache_copy for what a cache holds, + launch; where the device file has rates of
///               kernels, these
///   collective  bytes sent / the slowest link of the ring + its messages' latency
Price price(const Plan& plan, const Launch& launch, std::string* formula = nullptr);

/// Scores that attention computes for a head of a sequence: the mask's, and on a cpu, whose tiles of queries each run
/// over the same keys, about 32 more a query at each edge of what it sees (causal: one; measured in bf16 at head_dim
/// 64: 199, 242 and 288 GFLOP/s of half of the square at 128, 512 and 2,048 tokens).
double computed_scores(spec::TargetKind kind, const Mask& mask);

}  // namespace llmc::plan
