// What the table of keys says about itself: JSON Schema for editors, a page for the manual, a spec to begin with.
#pragma once

#include <string>

namespace llmc::spec {

/// JSON Schema, draft-07, of a spec as YAML or JSON.
std::string json_schema();

/// docs page in Markdown: every key with type, default, bounds, unit and whether it is compiled in.
std::string reference_markdown();

/// What `llmc init` writes: a small commented spec that passes `llmc check`.
std::string sample_spec();

}  // namespace llmc::spec
