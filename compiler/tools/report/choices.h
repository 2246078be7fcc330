// What other choices of a plan's micro-batch, recomputation and shares would cost: each is planned, none is guessed.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::report {

struct Choice {
  spec::Spec spec;        // with the numbers that its `auto` became
  double seconds = 0;     // of a step
  std::size_t bytes = 0;  // of the arena
  bool fits = false;      // memory.budget
  bool chosen = false;    // it is the plan
  bool front = false;     // none of the others is as fast with fewer bytes
};

/// The plan's own choice first, then others near it, whether they fit or not.
std::vector<Choice> choices_near(const plan::Plan& plan);

/// "batch.micro_batch: 8 and memory.recompute: full": what `other` has otherwise.
std::string choice_difference(const spec::Spec& chosen, const spec::Spec& other);

}  // namespace llmc::report
