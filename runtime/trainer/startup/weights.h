// Finds the weight files of a Hugging Face folder, and how to get a readable form of those that llmc does not read.
#pragma once

#include <filesystem>
#include <string>

namespace llmc {

/// A weight file that llmc does not read, in a folder without one that it reads.
struct UnreadWeights {
  std::string file;    // its name, such as pytorch_model.bin; empty: there is none
  std::string why;     // a clause
  std::string advice;  // how to get weights that llmc reads, as what follows "first"; a command is the last line
};

/// Returns whether the folder has model.safetensors or its index.
bool has_safetensors(const std::filesystem::path& folder);

/// Returns weights in a form or under a name that llmc does not read, if has_safetensors() is false.
UnreadWeights unread_weights(const std::filesystem::path& folder);

/// Throws Failure(checkpoint) if the folder has a part of a model's weights, as an interrupted download leaves it:
/// files of several without their index, or an index without one of its files.
void check_complete(const std::filesystem::path& folder);

/// Throws Failure(checkpoint) with advice if the folder has no safetensors, or only a part of them.
void check_has_safetensors(const std::filesystem::path& folder);

}  // namespace llmc
