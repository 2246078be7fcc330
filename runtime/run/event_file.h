// tensorboard/ of a run folder: one event file for each start, none of them with steps that a resume went back before.
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

/// The file of one start, written an event at a time. All functions throw Failure(checkpoint).
class EventFile {
 public:
  /// Creates the file, and `folder` where it is missing. `step`: steps done so far. The name sorts behind those of
  /// earlier starts, whatever the clock says, since readers take files by name.
  EventFile(const std::filesystem::path& folder, std::int64_t step);

  /// When they throw, the file is as before.
  void add_scalars(std::int64_t step, std::span<const Scalar> scalars);
  /// `text`: UTF-8, which is shown as it stands, as a block of code.
  void add_text(std::int64_t step, std::string_view tag, std::string_view text);

 private:
  void add(std::string_view event);
  std::optional<AppendFile> file_;
};

/// Cuts the files of earlier starts back to what they say of steps up to `step`, and to whole records (a torn last one
/// silently, others are named to `log`), and removes those that are left without a value. Files of other names stay as
/// they are. Cut short by a kill, it is done by the next start. Throws Failure(checkpoint).
void cut_events_after(const std::filesystem::path& folder, std::int64_t step, const Log& log);

}  // namespace llmc
