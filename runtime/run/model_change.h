// Decides whether a run may go on with another model.
#pragma once

#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc {

/// Returns why a run must not go from one model to the other: "model.rope_theta 10000 -> 1e+06. " and advice, `instead`
/// or with --allow. Empty if all that changed is in `allowed`. `fingerprints` stand for changes without a key.
std::string model_refusal(const spec::Spec& before, const spec::Spec& after, const std::vector<std::string>& allowed,
                          const std::string& fingerprints, const std::string& instead);

}  // namespace llmc
