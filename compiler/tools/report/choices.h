// Plans other choices of micro-batch, recomputation and sharding, and returns their time and memory.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::report {

struct PricedChoice {
  spec::Spec spec;        // with the values chosen for `auto`
  double seconds = 0;     // of a step
  std::size_t bytes = 0;  // of the arena
  bool fits = false;      // within memory.budget
  bool chosen = false;    // it is the plan's own
  bool front = false;     // on the Pareto front of seconds and bytes
};

/// Returns the plan's own choice first, then others near it, whether they fit or not.
std::vector<PricedChoice> choices_near(const plan::Plan& plan);

/// Returns the keys in which `other` differs: "batch.micro_batch: 8 and memory.recompute: full".
std::string choice_difference(const spec::Spec& chosen, const spec::Spec& other);

}  // namespace llmc::report
