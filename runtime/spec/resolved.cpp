#include "spec/resolved.h"

#include <fmt/format.h>

#include "spec/source.h"

namespace llmc::spec {

std::string Origin::text() const {
  if (kind == Kind::command_line) return "override";
  if (kind == Kind::file) return fmt::format("{}:{}", printable(file), line);
  return derivation.empty() ? "default" : "default: " + derivation;
}

Values values_of(const Resolved& resolved) {
  Values values{resolved.spec, {}};
  for (const auto& [path, origin] : resolved.origins)
    if (origin.kind == Origin::Kind::fallback && !origin.derivation.empty()) values.derived.insert(path);
  return values;
}

}  // namespace llmc::spec
