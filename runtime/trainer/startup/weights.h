// Finds the weight files of a Hugging Face folder, and how to convert formats that llmc does not read.
#pragma once

#include <filesystem>
#include <string>

namespace llmc {

/// Returns whether the folder has model.safetensors or its index.
bool has_safetensors(const std::filesystem::path& folder);

/// Name of a weight file in a format that llmc does not read, such as pytorch_model.bin; empty if there is none.
std::string other_weights(const std::filesystem::path& folder);

/// Command that converts `file`, as returned by other_weights(), in `folder`. If transformers cannot convert it, a
/// sentence on what to download.
std::string conversion(const std::filesystem::path& folder, const std::string& file);

/// Throws Failure(checkpoint) with advice if the folder has no safetensors.
void check_has_safetensors(const std::filesystem::path& folder);

}  // namespace llmc
