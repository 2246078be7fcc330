// Describes errors in JSON without the terms of its library.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace llmc {

/// "it is not JSON at byte 17", or of JSON with other members or types than expected "key 'sizes' not found".
inline std::string json_problem(const nlohmann::json::exception& error) {
  if (const auto* parse = dynamic_cast<const nlohmann::json::parse_error*>(&error))
    return fmt::format("it is not JSON at byte {}", parse->byte);
  const std::string text = error.what();  // "[json.exception.out_of_range.403] key 'sizes' not found"
  const std::size_t end = text.find("] ");
  return text.starts_with("[json.exception.") && end != std::string::npos ? text.substr(end + 2) : text;
}

}  // namespace llmc
