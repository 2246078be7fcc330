// Differences between two checkpoints: `llmc checkpoint diff`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/tools/checkpoints/contents.h"
#include "spec/values.h"

namespace llmc::checkpoints {

/// A tensor that differs between both.
struct TensorChange {
  std::string name;
  double relative = 0;  // norm of the difference over the norm before; infinite if that is 0
  double largest = 0;   // absolute difference of one element
  std::string shapes;   // both shapes or dtypes, if these differ; values are not compared then
};

struct Comparison {
  std::vector<std::pair<std::string, std::pair<std::string, std::string>>> state;  // field, before, after
  std::vector<spec::Change> keys;
  std::vector<std::string> removed, added;  // tensors that only one of them has
  std::vector<TensorChange> tensors;        // largest relative difference first
  std::int64_t equal = 0;                   // tensors, bit for bit

  bool empty() const { return state.empty() && keys.empty() && removed.empty() && added.empty() && tensors.empty(); }
};

/// Reads and compares both completely. A value that is not finite differs from every other bit pattern, and makes both
/// measures NaN. Throws Failure(checkpoint).
Comparison compare(const Contents& before, const Contents& after);

std::string comparison_text(const Contents& before, const Contents& after, const Comparison& comparison);
nlohmann::ordered_json comparison_json(const Comparison& comparison);

}  // namespace llmc::checkpoints
