// Strict JSON for untrusted files: limits on size, depth and count, no duplicate keys.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace llmc::spec {

/// Parses one JSON value. Throws Failure(spec) naming `name` and the position for malformed text, duplicate keys, more
/// than 1 MiB, 20,000 values or 32 levels.
nlohmann::ordered_json read_json(const std::string& text, const std::string& name);

}  // namespace llmc::spec
