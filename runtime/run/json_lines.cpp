#include "run/json_lines.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "run/set_aside.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

/// Bytes up to and including the last line break.
std::int64_t whole_lines(int fd, const fs::path& path, std::int64_t bytes) {
  char block[4096];
  while (bytes > 0) {
    const std::int64_t size = std::min<std::int64_t>(bytes, sizeof block);
    ssize_t got;
    do got = ::pread(fd, block, static_cast<std::size_t>(size), bytes - size);
    while (got < 0 && errno == EINTR);
    if (got != size) throw_errno("read", path);
    for (std::int64_t i = size; i > 0; --i)
      if (block[i - 1] == '\n') return bytes - size + i;
    bytes -= size;
  }
  return 0;
}

/// Gives the file a name in a new folder, in addition to its own where the file system can do that: then a process that
/// is killed here leaves it in its place too.
fs::path set_aside(const fs::path& path) {
  fs::path aside = new_aside_folder(path.parent_path()) / path.filename();
  if (::link(path.c_str(), aside.c_str()) != 0 && ::rename(path.c_str(), aside.c_str()) != 0)
    throw_errno("set aside", path);
  sync_directory(aside.parent_path());
  return aside;
}

std::optional<std::int64_t> step_of(const std::string& line) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

}  // namespace

JsonLines::JsonLines(const fs::path& path) : file_(path) {
  file_.cut(whole_lines(file_.descriptor(), path, file_.bytes()));
}

void JsonLines::append(std::string_view line) { file_.append(std::string(line) + "\n"); }

bool LineReader::next(std::string& line) {
  in_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  const bool whole = !in_.fail();
  if (!whole && !in_.eof()) {
    in_.clear();
    in_.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (in_.eof() || in_.bad()) return false;
  line.assign(buffer_.data(), whole ? static_cast<std::size_t>(in_.gcount()) - 1 : 0);
  return true;
}

std::string last_line(const fs::path& path) try {
  const AppendFile file(path);
  const std::int64_t end = whole_lines(file.descriptor(), path, file.bytes());
  if (end == 0) return {};
  const std::int64_t begin = whole_lines(file.descriptor(), path, end - 1);
  if (static_cast<std::size_t>(end - 1 - begin) > kMostLineBytes) return {};
  std::string line(static_cast<std::size_t>(end - 1 - begin), '\0');
  std::ifstream in(path, std::ios::binary);
  in.seekg(begin);
  in.read(line.data(), static_cast<std::streamsize>(line.size()));
  return in ? line : std::string();
} catch (const Failure&) {
  return {};
}

void truncate_lines_after(const fs::path& path, std::int64_t step, const Log& log) {
  if (!disk::exists(path, Exit::checkpoint)) return;
  std::ifstream in = disk::open(path);
  if (!in) throw_errno("open", path);
  const fs::path temporary = path.parent_path() / (".tmp-" + path.filename().string());
  std::error_code ignored;
  fs::remove(temporary, ignored);
  try {
    DurableFile out(temporary);
    LineReader lines(in);
    std::string line, pending;  // kept lines, flushed a block at a time
    std::int64_t wrong = 0, first_wrong = 0;
    for (std::int64_t number = 1; lines.next(line); ++number) {
      const std::optional<std::int64_t> found = step_of(line);
      if (!found && ++wrong == 1) first_wrong = number;
      if (!found || *found > step) continue;
      pending += line;
      pending += '\n';
      if (pending.size() < (1u << 20)) continue;
      out.write(pending);
      pending.clear();
    }
    if (in.bad()) throw_errno("read", path);
    out.write(pending);
    out.finish();
    if (wrong > 0) {
      const std::string kept = set_aside(path).string();
      const std::string what =
          wrong == 1 ? " is not a JSON object with a step and was dropped"
                     : " and " + std::to_string(wrong - 1) + " more are not JSON objects with a step and were dropped";
      if (log)
        log("line " + std::to_string(first_wrong) + " of '" + path.string() + "'" + what + ". '" + kept +
            "' is the file as it was");
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) throw_errno("rename", temporary);
  } catch (...) {
    fs::remove(temporary, ignored);
    throw;
  }
  sync_directory(path.parent_path());
}

std::optional<std::int64_t> last_step(const fs::path& path) {
  constexpr std::streamoff kTail = 1 << 20;
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff bytes = in ? std::streamoff(in.tellg()) : 0, from = std::max<std::streamoff>(bytes - kTail, 0);
  std::string text(static_cast<std::size_t>(bytes - from), '\0');
  in.seekg(from);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  const std::size_t end = in ? text.rfind('\n') : std::string::npos;
  if (end == std::string::npos) return std::nullopt;
  const std::size_t before = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return step_of(text.substr(begin, end - begin));
}

}  // namespace llmc
