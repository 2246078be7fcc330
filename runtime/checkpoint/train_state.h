// TrainState as the text of state.json.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"

namespace llmc {

/// Canonical JSON: one byte sequence a state.
std::string format_train_state(const TrainState& state);

/// Accepts format_train_state's output and nothing else. Throws std::invalid_argument.
TrainState parse_train_state(const std::string& text);

}  // namespace llmc
