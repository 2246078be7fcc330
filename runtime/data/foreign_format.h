// Files that hold data, but not as a shard does: known by how they begin, so that they are called by their name.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace llmc {

/// "is a NumPy .npy file (<u2); ..." with what to do instead; empty where nothing of the kind is seen. OLMo's and
/// dolma's files of this name are raw tokens, and have no such header.
std::string foreign_format(std::span<const std::byte> file);

}  // namespace llmc
