// tensorboard/ of a run folder: one event file per start. On resume, later steps are removed from all of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "run/append_file.h"
#include "run/event.h"

namespace llmc {

/// Event file of one start, written one event at a time. All functions throw Failure(checkpoint).
class EventFile {
 public:
  /// Creates the file, and `folder` if missing. `step`: steps done so far. Its name sorts after those of earlier
  /// starts, whatever the clock shows, because readers order files by name.
  EventFile(const std::filesystem::path& folder, std::int64_t step);

  /// If they throw, the file is unchanged.
  void add_scalars(std::int64_t step, std::span<const Scalar> scalars);
  /// `text`: UTF-8, shown verbatim as a code block.
  void add_text(std::int64_t step, std::string_view tag, std::string_view text);

 private:
  void add(std::string_view event);
  std::optional<AppendFile> file_;
};

/// Truncates the files of earlier starts to whole records of steps up to `step`, and removes files left without a
/// value. A torn last record is cut silently, other damage is reported to `log`. Ignores files with other names. If
/// killed midway, the next start finishes it. Throws Failure(checkpoint).
void cut_events_after(const std::filesystem::path& folder, std::int64_t step, const Log& log);

}  // namespace llmc
