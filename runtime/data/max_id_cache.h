// Caches the largest token id of each file between runs, so that a data set is scanned once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace llmc {

/// $XDG_CACHE_HOME/llmc or ~/.cache/llmc; empty (no caching) if neither is known.
std::filesystem::path default_cache_folder();

/// Stores one small file per identity (see MappedFile::identity). Errors of its folder only cost time.
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
