// model.safetensors.index.json: a strict parser of the index beside several model files that a stranger wrote.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace llmc {

/// The file of each tensor, by the tensor's name; file names are those of files beside the index. Throws
/// std::invalid_argument with one clause that says what is wrong: no JSON, keys that stand twice, anything in
/// `weight_map` but a name for each tensor, a file name with a slash or one that is a folder's, more than 2^20 tensors,
/// a name of more than 1,024 bytes, nesting beyond 8 levels. Other keys than `weight_map` are passed over.
std::map<std::string, std::string> parse_model_index(std::string_view json);

}  // namespace llmc
