// From a file and its overrides to a resolved spec with the origin of every value, or to all its errors.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/spec/diagnostics.h"
#include "compiler/spec/spec.h"
#include "compiler/spec/suggestions.h"

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

struct Resolved {
  Spec spec;
  std::map<std::string, Origin> origins;  // by key path: one for every key of the schema
  std::string directory;    // of the spec file ("." for one beside the caller): what paths are relative to
  std::string fingerprint;  // see fingerprint.h
};

struct LoadResult {
  std::optional<Resolved> resolved;     // only without diagnostics
  std::vector<Diagnostic> diagnostics;  // sorted by place
  std::vector<std::string> notes;       // one line each: what a value became that was meant for another choice
};

/// Reads the text of a file that `extends` names; nothing when it cannot be read. At most kMaxBytes + 1 bytes are
/// wanted.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;

/// Never throws for what a user wrote. `overrides`: "key.path=value", as on a command line. `accept`: what a spec must
/// pass after this, which suggestions are held against too.
LoadResult load(const std::string& path, const std::vector<std::string>& overrides = {}, const Accept& accept = {});

/// The same for a text in memory. Without `read_file`, `extends` is an error that says so.
LoadResult load_text(const std::string& text, const std::string& name, const std::vector<std::string>& overrides = {},
                     const ReadFile& read_file = {}, const Accept& accept = {});

/// What `load` reads files with: regular files only.
std::optional<std::string> read_regular_file(const std::string& path);

}  // namespace llmc::spec
