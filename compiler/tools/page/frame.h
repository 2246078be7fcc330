// An HTML page that needs nothing else: what `llmc report` and `llmc plan --html` have in common.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace llmc::page {

/// What a page has of its own, beside the charts' library, the style and the functions that all pages share.
struct Parts {
  const char* title = "";
  const char* style = "";            // behind the common one
  const char* body = "";             // markup
  std::vector<const char*> scripts;  // run in this order, behind the library and the common functions
  nlohmann::ordered_json data;       // what the scripts read; none of its texts becomes markup or code
};

std::string frame(const Parts& parts);

}  // namespace llmc::page
