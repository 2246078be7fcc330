// Builds a self-contained HTML page, for `llmc report` and `llmc plan --html`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace llmc::page {

/// A page's own parts, in addition to the charts' library, style and functions that all pages share.
struct Parts {
  const char* title = "";
  const char* style = "";            // after the common style
  const char* body = "";             // markup
  std::vector<const char*> scripts;  // run in this order, after the library and the common functions
  nlohmann::ordered_json data;       // read by the scripts; none of its text becomes markup or code
};

std::string frame(const Parts& parts);

}  // namespace llmc::page
