// Rows of the table of keys, in parts, in the order of the manual.
#pragma once

#include <vector>

#include "spec/schema/row.h"

/// Accessor that binds a row to a member of Spec.
#define LLMC_FIELD(member) [](auto& spec) -> auto& { return spec.member; }

/// Accessor that binds a member's row to a member of its entry.
#define LLMC_MEMBER(member) [](auto& entry) -> auto& { return entry.member; }

namespace llmc::spec {

/// Row of a member with this key in its entry.
inline KeyRow named(const char* word) {
  KeyRow row;
  row.key.path = word;
  return row;
}

inline constexpr const char* kCudaArch = "90a";  // if the spec names none
inline constexpr double kMaxSteps = 1e12;

/// name, model, init, precision
std::vector<KeyRow> model_rows();
/// batch, memory, optimizer, schedule
std::vector<KeyRow> training_rows();
/// data, evaluation, sampling, checkpoint, metrics, guards, parallel, deterministic, target, seed
std::vector<KeyRow> surrounding_rows();

}  // namespace llmc::spec
