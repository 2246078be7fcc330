// The proof that specialising changes nothing: the machine code of the specialised text equals that of template +
// params.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/specialiser/specialiser.h"

namespace llmc::emit {

/// Programs that the proof runs, by argv. `nvcc` is empty where there is none: Clang's NVPTX takes its place.
struct ProofTools {
  std::string cxx = "g++";
  std::string nvcc;
  std::string clang = "clang++-19";
};

/// The default tools, with nvcc from the PATH or /usr/local/cuda/bin.
ProofTools find_proof_tools();

/// Compiles `specialised` and input's template + params for each of `archs` (cpu: values of -march, with a trainer's
/// flags, to assembly; cuda: "sm_90a" and the like, to PTX) and returns the first difference as "arch: line N: one |
/// other", or nothing. Lines that name files or producers, and the numbers of local labels and lambdas, do not count.
/// `specialised` may also be the text of include_style(): the folder above include_directory is searched too. Throws
/// Failure(toolchain) with the compiler's words if one does not compile.
std::optional<std::string> first_difference(const SpecialiseInput& input, const std::string& specialised,
                                            const std::vector<std::string>& archs, const ProofTools& tools);

}  // namespace llmc::emit
