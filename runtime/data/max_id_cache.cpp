#include "data/max_id_cache.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "files/disk.h"

namespace llmc {
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostAnswerBytes = 1u << 16;  // of a cached answer, which has a path and a few numbers

}  // namespace

fs::path default_cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && fs::path(cache).is_absolute())
    return fs::path(cache) / "llmc";
  if (const char* home = std::getenv("HOME"); home != nullptr && fs::path(home).is_absolute())
    return fs::path(home) / ".cache" / "llmc";
  return {};
}

fs::path MaxIdCache::file_for(const std::string& identity) const {
  return folder_ / fmt::format("shard-{:016x}", XXH3_64bits(identity.data(), identity.size()));
}

std::optional<std::uint64_t> MaxIdCache::find(const std::string& identity) const {
  if (folder_.empty()) return std::nullopt;
  std::istringstream file(disk::text(file_for(identity), kMostAnswerBytes).value_or(""));
  std::string stored;
  std::uint64_t max_id = 0;
  // The file contains the identity as well, so that a hash collision cannot return another file's answer.
  if (!(file >> max_id) || file.get() != ' ' || !std::getline(file, stored, '\0') || stored != identity)
    return std::nullopt;
  return max_id;
}

void MaxIdCache::store(const std::string& identity, std::uint64_t max_id) const {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return;
  const fs::path target = file_for(identity);
  const fs::path partial = fmt::format("{}.{}", target.string(), ::getpid());
  std::ofstream file(partial, std::ios::binary);
  file << max_id << ' ' << identity << '\0';
  file.close();
  if (file) fs::rename(partial, target, error);
  if (!file || error) fs::remove(partial, error);
}

}  // namespace llmc
