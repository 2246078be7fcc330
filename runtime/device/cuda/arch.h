// Checks which GPUs can run a trainer's kernels.
#pragma once

#include <string_view>

namespace llmc {

/// Returns whether machine code for one of `archs` ("80,90a,100", as in nvcc's sm_NN) runs on compute capability
/// `capability` (90 is 9.0). Plain code runs on later GPUs of its major version, "f" on its family, "a" only on that
/// capability. Trainers contain no PTX.
bool arch_runs_on(std::string_view archs, int capability);

/// Throws Failure(toolchain) if the current device cannot run kernels compiled for `archs`.
void require_arch(std::string_view archs);

}  // namespace llmc
