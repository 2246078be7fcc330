// Prints the run's constants for the runtime: parameters, arena, shapes and embedded files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::emit {

/// Files embedded in the trainer. They contain strings of the spec, so the assembler includes them byte by byte: string
/// literals in emitted source would need escaping.
struct ProgramTexts {
  std::string plan_text, plan_json, spec_yaml, config_json;
};

/// Returns name and content of each embedded file.
std::vector<std::pair<std::string, std::string>> text_files(const ProgramTexts& texts);

/// Prints texts.S, which defines a symbol for each embedded file.
std::string print_texts();

/// Prints program.cpp, which defines llmc::program() and main().
std::string print_program(const plan::Plan& plan);

/// Prints step.h: the step's matrix products, and the functions of step.cpp that program.cpp passes to the runtime.
std::string print_step_header(const plan::Plan& plan);

}  // namespace llmc::emit
