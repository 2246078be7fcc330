// Changes of a pass to the text of a graph, by tensor and op.
#pragma once

#include <string>

namespace llmc::passes {

/// Lists changed lines under their region: "-" old, "+" new, adjacent if they are of one op. Inserted lines follow the
/// name of the line before them, so that a changed order is visible too.
std::string changes(const std::string& before, const std::string& after);

}  // namespace llmc::passes
