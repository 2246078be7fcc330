// Lists existing checkpoints near a path that has none, for messages.
#pragma once

#include <filesystem>
#include <string>

namespace llmc {

/// Returns " ('RUN/checkpoints' has step-00000100 and step-00000200; ...)" for RUN/checkpoints/step-00000150; empty if
/// there is no checkpoint nearby. RUN/checkpoints itself is treated like a path in it.
std::string checkpoints_near(const std::filesystem::path& missing);

}  // namespace llmc
