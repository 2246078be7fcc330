// model.safetensors.index.json: a strict parser for untrusted indexes of several model files.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace llmc {

/// File of each tensor, by the tensor's name; file names must be in the index's own folder. Throws
/// std::invalid_argument with one clause: invalid JSON, duplicate keys, an entry of `weight_map` that is not a name per
/// tensor, a file name with a slash or of a folder, more than 2^20 tensors, a name of more than 1,024 bytes, nesting
/// beyond 8 levels. Keys other than `weight_map` are ignored.
std::map<std::string, std::string> parse_model_index(std::string_view json);

}  // namespace llmc
