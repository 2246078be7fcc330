#include "run/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "files/disk.h"
#include "files/durable_file.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.", kSuffix = ".llmc";

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Event files written by llmc, sorted by name.
std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!disk::exists(folder, Exit::checkpoint)) return files;
  for (const fs::path& file : disk::entries(folder, Exit::checkpoint)) {
    const std::string name = file.filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix) && disk::is_file(file, Exit::checkpoint))
      files.push_back(file);
  }
  return files;
}

/// Seconds in the name of a file; 0 if it has none.
std::int64_t seconds_of(const fs::path& file) {
  const std::string digits = file.filename().string().substr(kPrefix.size(), 10);
  return digits.size() == 10 && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })
             ? std::stoll(digits)
             : 0;
}

std::string host() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  std::string text = name;
  std::erase_if(text, [](char c) { return c == '/'; });
  return text.empty() ? "localhost" : text;
}

}  // namespace

EventFile::EventFile(const fs::path& folder, std::int64_t step) {
  make_directories(folder);
  std::int64_t seconds = static_cast<std::int64_t>(now());
  for (const fs::path& file : event_files(folder)) seconds = std::max(seconds, seconds_of(file) + 1);
  file_.emplace(folder / fmt::format("{}{:010}.{}.{}.0{}", kPrefix, seconds, host(), ::getpid(), kSuffix), O_EXCL);
  add(version_event(now()));
  add(restart_event(now(), step + 1));
}

void EventFile::add(std::string_view event) { file_->append(event_record(event)); }

void EventFile::add_scalars(std::int64_t step, std::span<const Scalar> scalars) {
  add(scalars_event(now(), step, scalars));
}

void EventFile::add_text(std::int64_t step, std::string_view tag, std::string_view text) {
  // Four blanks before each line make a code block in Markdown, so that no markup is interpreted.
  std::string block = "    ";
  for (const char c : text) {
    block += c;
    if (c == '\n') block += "    ";
  }
  add(text_event(now(), step, tag, block));
}

void cut_events_after(const fs::path& folder, std::int64_t step, const Log& log) {
  for (const fs::path& path : event_files(folder)) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw_errno("open", path);
    const KeptEvents kept = kept_events(in, disk::size(path, Exit::checkpoint), step);
    if (in.bad()) throw_errno("read", path);
    if (kept.damaged && log)
      log(fmt::format("'{}' is damaged at byte {}. TensorBoard's points after it were dropped", path.string(),
                      kept.bytes));
    if (kept.has_values) AppendFile(path).cut(static_cast<std::int64_t>(kept.bytes));
    if (!kept.has_values && ::unlink(path.c_str()) != 0 && errno != ENOENT) throw_errno("remove", path);
  }
}

}  // namespace llmc
