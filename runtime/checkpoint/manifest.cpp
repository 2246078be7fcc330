#include "checkpoint/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "error.h"
#include "files/git_lfs.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kName[] = "manifest.json";
constexpr char kManifestFormat[] = "llmc-checkpoint-1";

/// A regular file open for reading. `bytes`: its size when it was opened.
struct InputFile {
  int fd = -1;
  std::uint64_t bytes = 0;

  explicit InputFile(const fs::path& path) {
    // O_NONBLOCK: opening a planted pipe must not block.
    do fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) throw_read_errno("open", path);
    struct stat status{};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(fd);
      throw Failure(Exit::checkpoint, "'" + path.string() + "' is not a regular file");
    }
    bytes = static_cast<std::uint64_t>(status.st_size);
  }
  ~InputFile() { ::close(fd); }
  InputFile(const InputFile&) = delete;

  /// Reads up to `size` bytes; 0 at the end.
  std::size_t read(const fs::path& path, void* out, std::size_t size) {
    ssize_t got;
    do got = ::read(fd, out, size);
    while (got < 0 && errno == EINTR);
    if (got < 0) throw_read_errno("read", path);
    return static_cast<std::size_t>(got);
  }
};

std::string canonical(std::span<const FileRecord> files) {
  Json list = Json::object();
  for (const FileRecord& file : files) list[file.name] = {{"bytes", file.bytes}, {"xxh3", file.xxh3}};
  return Json{{"files", list}, {"format", kManifestFormat}}.dump(1) + "\n";
}

std::string checksum_of(const fs::path& path) {
  InputFile file(path);
  Checksum checksum;
  std::vector<char> block(std::clamp<std::uint64_t>(file.bytes, 1, 1u << 20));
  while (const std::size_t got = file.read(path, block.data(), block.size())) checksum.update(block.data(), got);
  return checksum.hex();
}

}  // namespace

std::string read_small_file(const fs::path& path, std::uint64_t limit) {
  InputFile file(path);
  if (file.bytes > limit)
    throw Failure(Exit::checkpoint, "'" + path.string() + "' has " + std::to_string(file.bytes) + " bytes, more than " +
                                        std::to_string(limit));
  std::string content(file.bytes, '\0');
  std::size_t filled = 0;
  while (filled < content.size()) {
    const std::size_t got = file.read(path, content.data() + filled, content.size() - filled);
    if (got == 0) throw Failure(Exit::checkpoint, "'" + path.string() + "' became shorter while it was read");
    filled += got;
  }
  if (is_lfs_pointer(content)) throw Failure(Exit::checkpoint, "'" + path.string() + "' " + kIsLfsPointer);
  return content;
}

FileRecord write_small_file(const fs::path& directory, const std::string& name, std::string_view content,
                            const Writer& writer) {
  DurableFile file(directory / name, writer);
  file.write(content);
  return file.finish();
}

bool has_manifest(const fs::path& directory) {
  std::error_code unreadable;
  return fs::exists(directory / kName, unreadable);
}

void write_manifest(const fs::path& directory, std::span<const FileRecord> files, const Writer& writer) {
  write_small_file(directory, kName, canonical(files), writer);
}

std::vector<FileRecord> read_manifest(const fs::path& directory) {
  const fs::path path = directory / kName;
  const std::string text = read_small_file(path);
  std::vector<FileRecord> files;
  try {
    const Json document = Json::parse(text);
    for (const auto& [name, file] : document.at("files").items())
      files.push_back({name, file.at("bytes").get<std::uint64_t>(), file.at("xxh3").get<std::string>()});
    if (canonical(files) != text) throw Failure(Exit::checkpoint, "'" + path.string() + "' was altered");
  } catch (const Json::exception&) {
    throw Failure(Exit::checkpoint, "'" + path.string() + "' is not a checkpoint's manifest");
  }
  for (const FileRecord& file : files)
    if (file.name.empty() || file.name == "." || file.name == ".." || file.name.find('/') != std::string::npos ||
        file.name.find('\0') != std::string::npos)
      throw Failure(Exit::checkpoint, "'" + path.string() + "' names a file outside of its directory");
  return files;
}

bool same_manifest(const fs::path& a, const fs::path& b) try {
  return canonical(read_manifest(a)) == canonical(read_manifest(b));
} catch (const Failure&) {
  return false;
}

std::vector<std::string> missing_records(std::span<const FileRecord> files) {
  std::vector<std::string> missing;
  for (const char* needed : {"config.json", "spec.yaml", "state.json"})
    if (std::none_of(files.begin(), files.end(), [&](const FileRecord& file) { return file.name == needed; }))
      missing.push_back(needed);
  return missing;
}

std::optional<std::string> find_file_damage(const fs::path& directory, const FileRecord& file, Depth depth) {
  const fs::path path = directory / file.name;
  const std::uint64_t bytes = InputFile(path).bytes;
  if (bytes != file.bytes) return "has " + std::to_string(bytes) + " bytes instead of " + std::to_string(file.bytes);
  if (depth == Depth::checksums && checksum_of(path) != file.xxh3) return "does not match its checksum in the manifest";
  return std::nullopt;
}

std::optional<std::string> find_damage(const fs::path& directory, Depth depth) try {
  const std::vector<FileRecord> files = read_manifest(directory);
  for (const std::string& missing : missing_records(files)) return "its manifest does not list " + missing;
  for (const FileRecord& file : files)
    if (const auto damage = find_file_damage(directory, file, depth)) return file.name + " " + *damage;
  return std::nullopt;
} catch (const Failure& failure) {
  return failure.what();
}

}  // namespace llmc
