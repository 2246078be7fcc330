// Draws the learning rate of a whole run as one line of block characters.
#pragma once

#include <string>

#include "spec/spec.h"

namespace llmc {

/// Returns whether the locale of the environment uses UTF-8.
bool prints_utf8();

/// "▁▄█████▇▆▅▄▂▁▁": `columns` characters, each the learning rate at its middle in eighths of the largest,
/// from from_step on. ASCII
/// characters if `utf8` is false.
std::string schedule_line(const spec::Schedule& schedule, double peak, int columns, bool utf8);

}  // namespace llmc
