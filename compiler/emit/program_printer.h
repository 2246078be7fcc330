// Prints the run's constants for the runtime: parameters, arena, shapes and embedded files.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::emit {

/// Files embedded in the trainer. They contain strings of the spec, so the assembler includes them byte by byte: string
/// literals in emitted source would need escaping.
struct ProgramTexts {
  std::string plan_text, plan_json, spec_yaml, config_json;
  std::string phases_json = {};  // of a run with phases: phases_json()
};

/// A phase of a run.
struct PhaseOfRun {
  const spec::Phase& phase;
  const ProgramTexts& texts;
};

/// Lists the phases of a run for the trainers of all of them: number, keys that change, plan and spec of each.
std::string phases_json(std::span<const PhaseOfRun> phases);

/// Returns name and content of each file that the trainer of `plan` embeds.
std::vector<std::pair<std::string, std::string>> text_files(const plan::Plan& plan, const ProgramTexts& texts = {});

/// Prints texts.S, which defines a symbol for each embedded file.
std::string print_texts(const plan::Plan& plan);

/// Prints program.cpp, which defines llmc::program() and main().
std::string print_program(const plan::Plan& plan);

/// Prints step.h: the step's matrix products, and the functions of step.cpp that program.cpp passes to the runtime.
std::string print_step_header(const plan::Plan& plan);

}  // namespace llmc::emit
