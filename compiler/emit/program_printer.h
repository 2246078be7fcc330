// Prints what the runtime must know of a run: parameters, arena, shapes, and the texts it carries.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::emit {

/// Texts that the trainer carries. They hold strings of the spec, so no source has them: they are files of the project,
/// which the assembler takes in byte by byte.
struct ProgramTexts {
  std::string plan_text, plan_json, spec_yaml, config_json;
};

/// Name and content of the file of each text.
std::vector<std::pair<std::string, std::string>> text_files(const ProgramTexts& texts);

/// texts.S: a symbol for each of them.
std::string print_texts();

/// program.cpp: defines llmc::program() and main().
std::string print_program(const plan::Plan& plan);

/// step.h: the step's matrix products, and the functions of step.cpp that program.cpp puts into its table.
std::string print_step_header(const plan::Plan& plan);

}  // namespace llmc::emit
