// A resolved spec: every value, and where each comes from.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "spec/schema/schema.h"
#include "spec/spec.h"

namespace llmc::spec {

/// Where a value comes from.
struct Origin {
  enum class Kind { fallback, file, command_line } kind = Kind::fallback;
  std::string file;        // kind == file
  int line = 0;            // 1-based
  std::string derivation;  // kind == fallback: "hidden_size / num_attention_heads", or empty

  /// "default", "default: hidden_size / num_attention_heads", "specs/a.yaml:12", "override"
  std::string text() const;
};

/// A file that a spec was read from.
struct SpecFile {
  std::string path, text;
};

struct Resolved {
  Spec spec;
  std::map<std::string, Origin> origins;  // by key path: one for every key of the schema
  std::string directory;        // of the spec file ("." for one beside the caller): what paths are relative to
  std::vector<SpecFile> files;  // the spec itself, and what it extends
};

/// What a trainer and a run folder know of a spec. `derived`: keys that nobody gave, and that follow from others.
struct Values {
  Spec spec;
  std::set<std::string> derived;
};

Values values_of(const Resolved& resolved);

}  // namespace llmc::spec
