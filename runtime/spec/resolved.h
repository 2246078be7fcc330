// A resolved spec: every value and its origin.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "spec/schema/schema.h"
#include "spec/spec.h"

namespace llmc::spec {

/// Origin of a value.
struct Origin {
  enum class Kind { fallback, file, command_line } kind = Kind::fallback;
  std::string file = {};        // kind == file
  int line = 0;                 // 1-based
  std::string derivation = {};  // kind == fallback: "hidden_size / num_attention_heads", or empty

  /// "default", "default: hidden_size / num_attention_heads", "specs/a.yaml:12", "override"
  std::string text() const;
};

/// A file that a spec was read from.
struct SpecFile {
  std::string path, text;
};

struct Resolved {
  Spec spec;
  std::map<std::string, Origin> origins;  // by path: of every key, and of the members given in entries
  std::string directory;        // of the spec file ("." for one beside the caller): what paths are relative to
  std::vector<SpecFile> files;  // the spec itself, and the files it extends

  /// Origin of a key or of an entry's member; the default if the member was not given.
  Origin origin_of(const std::string& path) const {
    const auto found = origins.find(path);
    return found == origins.end() ? Origin{} : found->second;
  }
};

/// Values known to a trainer and a run folder. `derived`: keys that were not given and follow from others.
struct Values {
  Spec spec;
  std::set<std::string> derived;
};

Values values_of(const Resolved& resolved);

}  // namespace llmc::spec
