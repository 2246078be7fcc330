// Changes of a model with which its tensors keep their shapes and most of their meaning: rotary angles and windows.
#pragma once

#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc {

/// Keys of such changes. A run resumes with other values of them only with --allow KEY.
const std::vector<std::string>& soft_model_keys();

/// Returns why a run must not go from one model to the other: "model.rope_theta 10000 -> 1e+06. " and advice, `instead`
/// or with --allow. Empty if all that changed is in `allowed`. `fingerprints` stand for changes without a key.
std::string model_refusal(const spec::Spec& before, const spec::Spec& after, const std::vector<std::string>& allowed,
                          const std::string& fingerprints, const std::string& instead);

}  // namespace llmc
