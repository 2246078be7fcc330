// Compares the trainers of two specs: kernels, their parameters, memory, FLOPs, launches.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// One side of a comparison.
struct Side {
  std::string label;  // as the user named it
  const plan::Plan* plan = nullptr;
  std::map<std::string, std::string> keys;     // resolved spec: "model.hidden_size" -> "2048"
  std::map<std::string, std::string> sources;  // emitted file -> text
};

struct ParamChange {
  std::string name, before, after;
  std::vector<std::string> through;  // spec keys
};

struct KernelChange {
  enum class Kind { added, removed, changed } kind;
  std::string name;
  std::string renamed_from;  // empty: same name
  std::vector<ParamChange> params;
};

struct Difference {
  std::vector<std::pair<std::string, std::pair<std::string, std::string>>> keys;  // key, before, after
  std::vector<KernelChange> kernels, products;
  std::vector<std::string> files;  // emitted files whose text differs
  bool empty() const { return keys.empty() && kernels.empty() && products.empty() && files.empty(); }
};

/// Returns the plan of `a` with this one key as in `b`; if `without`, the plan of `b` with this one key as in `a`.
/// Nothing if that spec is not valid.
using PlanAlone = std::function<std::optional<plan::Plan>(const std::string& key, bool without)>;

/// Compares two sides. A key is a cause of a changed value if changing only this key changes the value, or if the value
/// does not change without it.
Difference compare(const Side& a, const Side& b, const PlanAlone& alone);

/// Prints the difference for people; with `full`, also unified diffs of the kernels' and the step's sources.
std::string diff_text(const Side& a, const Side& b, const Difference& difference, bool full);
nlohmann::ordered_json diff_json(const Side& a, const Side& b, const Difference& difference);

}  // namespace llmc::report
