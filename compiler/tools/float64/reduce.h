// Reduces the user's run to one that can be verified in a minute: fewer repeats of the same kernels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "spec/spec.h"

namespace llmc::float64 {

struct Reduction {
  spec::Spec spec;
  std::vector<std::string> said;  // reductions, for people: "2 of 6 layers"
};

/// Reduces `spec`, whose plan is `plan`. Keeps a layer of each kind and at least two, two micro-batches per step,
/// `steps` steps on the shards that `data` matches, and one rank; drops everything but training. `short_pass`:
/// micro-batches of one sequence, or of as few as give fp8 weight gradients their multiple of tokens.
Reduction reduce(const spec::Spec& spec, const plan::Plan& plan, std::int64_t steps, const std::string& data,
                 bool short_pass);

/// Writes shards of random tokens for the steps of a reduced run into `folder`, which it creates. Returns the pattern
/// that matches them.
std::string write_tokens(const plan::Plan& plan, std::int64_t steps, const std::filesystem::path& folder);

/// Number of kernels and matrix products of a plan's training that another plan runs unchanged.
struct Shared {
  std::size_t same = 0, all = 0;
  std::vector<std::string> others;  // names of those that differ in a param
};
Shared shared_kernels(const plan::Plan& plan, const plan::Plan& reduced);

/// Estimates the bytes that llmc needs to verify the run. For each parameter: weight, gradient, both moments and copies
/// in the whole run, the optimizer's op a second time with a scale for each result, and the trainer's own bytes. For
/// the passes: the arena in float64, and its own bytes. `with_rounding`: beside a run with errors of rounding.
double memory_of(const plan::Plan& reduced, bool with_rounding);

/// FLOPs that the interpreter computes for the reduced run: every op twice, alone and in the whole run.
double arithmetic_of(const plan::Plan& reduced, std::int64_t steps);

/// Estimates the seconds of these FLOPs on this machine by timing a product.
double estimated_seconds(double flops);

}  // namespace llmc::float64
