// Prints the run's constants for the runtime: parameters, arena, shapes and embedded texts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::emit {

/// Texts embedded in the trainer. They contain strings of the spec, so they are files of the project that the assembler
/// includes byte by byte, instead of string literals.
struct ProgramTexts {
  std::string plan_text, plan_json, spec_yaml, config_json;
};

/// Returns name and content of the file of each text.
std::vector<std::pair<std::string, std::string>> text_files(const ProgramTexts& texts);

/// Prints texts.S: a symbol for each text.
std::string print_texts();

/// Prints program.cpp, which defines llmc::program() and main().
std::string print_program(const plan::Plan& plan);

/// Prints step.h: the step's matrix products, and the functions of step.cpp in program.cpp's table.
std::string print_step_header(const plan::Plan& plan);

}  // namespace llmc::emit
