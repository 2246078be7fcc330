#include "data/bpe/tokenizer_config.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "error.h"
#include "files/disk.h"

namespace llmc {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 16u << 20;  // those of Gemma have 1 MiB
constexpr int kMaxConfigLevels = 32;

}  // namespace

nlohmann::ordered_json read_tokenizer_config(const std::filesystem::path& file) {
  const auto refuse = [&](const char* what) {
    throw Failure(Exit::data, fmt::format("'{}' cannot be used: {}", file.string(), what));
  };
  const std::optional<std::string> text = disk::text(file, kMaxConfigBytes);
  if (!text) refuse("it is not a readable file of at most 16 MiB");
  const auto check_depth = [&](int depth, nlohmann::ordered_json::parse_event_t, nlohmann::ordered_json&) {
    if (depth > kMaxConfigLevels) refuse("it is nested too deeply");  // dump() and copies are recursive
    return true;
  };
  nlohmann::ordered_json config = nlohmann::ordered_json::parse(*text, check_depth, false);
  if (!config.is_object()) refuse("it is not a JSON object");
  return config;
}

std::string eos_token(const nlohmann::ordered_json& config) {
  auto token = config.find("eos_token");
  if (token == config.end()) return {};
  if (token->is_object()) {
    const nlohmann::ordered_json& object = *token;
    token = object.find("content");
    if (token == object.end()) return {};
  }
  return token->is_string() ? token->get<std::string>() : std::string();
}

}  // namespace llmc
