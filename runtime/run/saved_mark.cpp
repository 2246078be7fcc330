#include "run/saved_mark.h"

#include <charconv>
#include <string>

#include "checkpoint/manifest.h"
#include "error.h"
#include "files/durable_file.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

fs::path mark(const fs::path& run) { return run / "state" / "saved"; }

}  // namespace

std::optional<std::int64_t> saved_step(const fs::path& run) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(mark(run), error))) return std::nullopt;
  std::int64_t step = 0;
  try {
    const std::string text = read_small_file(mark(run));
    std::from_chars(text.data(), text.data() + text.size(), step);
  } catch (const Failure&) {  // the file exists, which is enough
  }
  return step < 0 ? 0 : step;
}

void note_saved(const fs::path& run, std::int64_t step) {
  replace_where_different(mark(run), std::to_string(step) + "\n");
}

}  // namespace llmc
