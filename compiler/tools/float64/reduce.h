// A run that can be verified in a minute: the user's, with fewer repeats of the same kernels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "spec/spec.h"

namespace llmc::verify {

struct Reduction {
  spec::Spec spec;
  std::vector<std::string> said;  // what is less: "2 of 6 layers"
};

/// Of `spec`, which `plan` is the plan of: a layer of each kind and at least two, two micro-batches a step, `steps`
/// steps on the shards that `data` matches, one rank, and nothing beside training. `short_pass`: micro-batches of one
/// sequence.
Reduction reduce(const spec::Spec& spec, const plan::Plan& plan, std::int64_t steps, const std::string& data,
                 bool short_pass);

/// Shards of random tokens for the steps of a reduced run in `folder`, which is made; the pattern that matches them.
std::string write_tokens(const plan::Plan& plan, std::int64_t steps, const std::filesystem::path& folder);

/// How much of a plan's training another plan runs by the very same kernels and matrix products.
struct Shared {
  std::size_t same = 0, all = 0;
  std::vector<std::string> others;  // names of those that differ in a param
};
Shared shared_kernels(const plan::Plan& plan, const plan::Plan& reduced);

/// Bytes that llmc needs to verify it, roughly: of each parameter the whole run has weight, gradient, both moments and
/// copies, and the optimizer's op once more with a scale for each result; of the passes, the arena in float64.
double memory_of(const plan::Plan& reduced);

/// FLOPs that the interpreter computes for the reduced run: every op twice, alone and in the whole run.
double arithmetic_of(const plan::Plan& reduced, std::int64_t steps);

/// Seconds of so many FLOPs on this machine, by a product that is timed here.
double estimated_seconds(double flops);

}  // namespace llmc::verify
