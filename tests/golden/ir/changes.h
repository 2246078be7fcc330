// Changes that a pass makes to the text of a graph, by tensor and op.
#pragma once

#include <string>

namespace llmc::passes {

/// Changed lines below the region that they are in: "-" old, "+" new, both of one op next to each other. Where lines
/// come in, the line before them stands there by its name, so that a changed order is seen too.
std::string changes(const std::string& before, const std::string& after);

}  // namespace llmc::passes
