// The learning rate of a whole run as one line of block characters.
#pragma once

#include <string>

#include "spec/spec.h"

namespace llmc {

/// Whether what a process prints may be UTF-8: the locale of its environment is.
bool prints_utf8();

/// "▁▄█████▇▆▅▄▂▁▁": `columns` places, each the learning rate at its middle, in eighths of the largest one; of ASCII
/// characters where `utf8` is false.
std::string schedule_line(const spec::Schedule& schedule, double peak, int columns, bool utf8);

}  // namespace llmc
