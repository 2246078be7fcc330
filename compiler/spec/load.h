// Reads a spec file with overrides into a resolved spec with the origin of every value, or returns all its errors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "spec/advice/suggestions.h"
#include "spec/diagnostics.h"
#include "spec/resolved.h"

namespace llmc::spec {

struct LoadResult {
  std::optional<Resolved> resolved;     // only without diagnostics, and of a spec without phases
  std::vector<Resolved> phases;         // only without diagnostics, and of a spec with phases
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

/// Reads a file for `load`; nothing if it is not a regular file.
std::optional<std::string> read_regular_file(const std::string& path);

/// Name of a spec that came through a pipe, as from `<(...)`: there is no file, and relative paths in it are from the
/// working folder.
inline constexpr char kPipeName[] = "(pipe)";

/// Whether the path is a pipe that this process has open, which can be read once: /dev/fd/63, /dev/stdin.
bool is_open_pipe(const std::string& path);

/// Reads such a pipe to its end, which a second call would find empty; nothing if it is not one.
std::optional<std::string> read_pipe(const std::string& path);

}  // namespace llmc::spec
