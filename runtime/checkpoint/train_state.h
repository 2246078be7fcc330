// Converts TrainState to and from the text of state.json.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"

namespace llmc {

/// Canonical JSON: one byte sequence per state.
std::string format_train_state(const TrainState& state);

/// Accepts only the output of format_train_state. Throws std::invalid_argument.
TrainState parse_train_state(const std::string& text);

}  // namespace llmc
