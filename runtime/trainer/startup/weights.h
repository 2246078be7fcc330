// Which files of weights a Hugging Face folder has, and how those that llmc does not read are converted.
#pragma once

#include <filesystem>
#include <string>

namespace llmc {

/// Whether the folder has model.safetensors, or its index.
bool has_safetensors(const std::filesystem::path& folder);

/// The name of a file with weights in a format that llmc does not read, such as pytorch_model.bin; empty: there is
/// none.
std::string other_weights(const std::filesystem::path& folder);

/// The command line that converts the weights of `folder` in `file`, which other_weights() named; where transformers
/// cannot, the sentence that says what to fetch.
std::string conversion(const std::filesystem::path& folder, const std::string& file);

/// Throws Failure(checkpoint) where the folder has no safetensors, with what to write instead.
void check_has_safetensors(const std::filesystem::path& folder);

}  // namespace llmc
