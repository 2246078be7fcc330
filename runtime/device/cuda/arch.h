// Which GPUs the kernels of a trainer run on.
#pragma once

#include <string_view>

namespace llmc {

/// Whether machine code for one of `archs` ("80,90a,100", as nvcc's sm_NN) runs on compute capability `capability`
/// (90 is 9.0). Plain code runs on later GPUs of its own major version, "f" on its family, "a" on that capability
/// alone; there is no PTX in a trainer.
bool arch_runs_on(std::string_view archs, int capability);

/// Throws Failure(toolchain) when the current device cannot run kernels that were compiled for `archs`.
void require_arch(std::string_view archs);

}  // namespace llmc
