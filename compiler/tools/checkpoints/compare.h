// Differences between two checkpoints: `llmc checkpoint diff`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/tools/checkpoints/contents.h"
#include "spec/values.h"

namespace llmc::checkpoints {

/// A tensor that both have and that differs.
struct TensorChange {
  std::string name;
  double relative = 0;  // norm of the difference over the norm before; infinite where that is 0
  double largest = 0;   // absolute difference of one element
  std::string shapes;   // where these or the dtypes differ, both: there are no differences of values then
};

struct Comparison {
  std::vector<std::pair<std::string, std::pair<std::string, std::string>>> state;  // field, before, after
  std::vector<spec::Change> keys;
  std::vector<std::string> removed, added;  // tensors that only one of them has
  std::vector<TensorChange> tensors;        // the largest relative difference first
  std::int64_t equal = 0;                   // tensors, bit for bit

  bool empty() const { return state.empty() && keys.empty() && removed.empty() && added.empty() && tensors.empty(); }
};

/// Reads both whole. Values that are not finite differ from every other bit pattern, and make both measures NaN.
/// Throws Failure(checkpoint).
Comparison compare(const Contents& before, const Contents& after);

std::string comparison_text(const Contents& before, const Contents& after, const Comparison& comparison);
nlohmann::ordered_json comparison_json(const Comparison& comparison);

}  // namespace llmc::checkpoints
