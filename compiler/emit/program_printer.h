// Prints what the runtime must know of a run: parameters, arena, shapes, and its texts as bytes.
#pragma once

#include <string>

#include "compiler/plan/plan.h"

namespace llmc::emit {

/// Texts that the trainer carries. They hold strings of the spec, so they are printed as numbers, never as text.
struct ProgramTexts {
  std::string plan_text, plan_json, spec_yaml, config_json, keys_json;
};

/// program.cpp: defines llmc::program() and main().
std::string print_program(const plan::Plan& plan, const ProgramTexts& texts);

/// step.h: declares the functions of step.cpp that program.cpp puts into its table.
std::string print_step_header(const plan::Plan& plan);

}  // namespace llmc::emit
