// The trainers of a spec: one for each set of phases that are compiled alike.
#pragma once

#include <vector>

#include "compiler/cli/specs.h"

namespace llmc::cli {

/// A spec's phases, of which the word phase=N selects one; a spec without phases has one entry.
struct SelectedPhases {
  std::vector<spec::Resolved> all;
  int selected = 0;                    // 0: all
  std::vector<std::string> overrides;  // without that word
};

/// Loads all phases. Throws as load_spec().
SelectedPhases load_selected(const SpecArguments& arguments, bool tell = true);

/// Plans each phase as plan_loaded() does, and marks those that have the same trainer: phases of which no compiled-in
/// value differs, also where other phases lie between them.
std::vector<Planned> plan_phases(std::vector<spec::Resolved> phases, bool here);

/// The trainers of all phases, or that of phase `selected`, each planned as its first phase, with memory for the
/// largest steps of all its phases.
std::vector<Planned> trainers_of(const std::vector<Planned>& phases, int selected);

/// The one trainer. Throws Failure(usage), which says how to select one, if there are several.
Planned only_trainer(std::vector<Planned> trainers, const std::string& file);

}  // namespace llmc::cli
