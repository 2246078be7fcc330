// Remembers the largest token id of a file between runs, so that a data set is scanned once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace llmc {

/// $XDG_CACHE_HOME/llmc or ~/.cache/llmc; empty (nothing is remembered) when neither is known.
std::filesystem::path default_cache_folder();

/// One small file an identity (see MappedFile::identity). Folders that cannot be read or written only cost time.
class MaxIdCache {
 public:
  explicit MaxIdCache(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::optional<std::uint64_t> find(const std::string& identity) const;
  void store(const std::string& identity, std::uint64_t max_id) const;

 private:
  std::filesystem::path file_for(const std::string& identity) const;
  std::filesystem::path folder_;
};

}  // namespace llmc
