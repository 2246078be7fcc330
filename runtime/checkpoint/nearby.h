// Names the checkpoints that exist where one was looked for in vain.
#pragma once

#include <filesystem>
#include <string>

namespace llmc {

/// " ('RUN/checkpoints' has step-00000100 and step-00000200; ...)" for RUN/checkpoints/step-00000150; empty where
/// nothing near it is a checkpoint. RUN/checkpoints itself is looked for as one in it.
std::string checkpoints_near(const std::filesystem::path& missing);

}  // namespace llmc
