// Reads tokenizer_config.json, in which the folder of a tokenizer.json names the token that ends a text.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace llmc {

inline constexpr char kTokenizerConfig[] = "tokenizer_config.json";

/// Throws Failure(data) naming the file: not a JSON object, more than 16 MiB or 32 levels.
nlohmann::ordered_json read_tokenizer_config(const std::filesystem::path& file);

/// Returns the name of eos_token, which is text or the content of an object; empty if there is none.
std::string eos_token(const nlohmann::ordered_json& config);

}  // namespace llmc
