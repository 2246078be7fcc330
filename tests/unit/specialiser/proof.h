// Proves that specialising changes nothing: the machine code equals that of the template with its params.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/specialiser/specialiser.h"

namespace llmc::emit {

/// Programs that the proof runs, by argv. If `nvcc` is empty, Clang's NVPTX replaces it.
struct ProofTools {
  std::string cxx = "g++";
  std::string nvcc;
  std::string clang = "clang++-19";
};

/// Returns the default tools, with nvcc from PATH or /usr/local/cuda/bin.
ProofTools find_proof_tools();

/// Compiles `specialised` and input's template with params for each of `archs`. cpu: values of -march, with a trainer's
/// flags, to assembly; cuda: "sm_90a" and the like, to PTX. Returns the first difference as "arch: line N: one |
/// other", or nothing. Lines that name files or producers, and numbers of local labels and lambdas, are ignored.
/// `specialised` may also be the text of include_style(): the folder above include_directory is searched too. Throws
/// Failure(toolchain) with the compiler's output if one does not compile.
std::optional<std::string> first_difference(const SpecialiseInput& input, const std::string& specialised,
                                            const std::vector<std::string>& archs, const ProofTools& tools);

}  // namespace llmc::emit
