// Records sizes and checksums of built files, so that files that were truncated or modified are rebuilt.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace llmc::build {

/// Returns "BYTES XXH3" of a regular file; empty if it does not exist or cannot be read.
std::string seal_of(const std::filesystem::path& file);

/// Seals of the files in a folder, stored in its file `checksums`.
class Checksums {
 public:
  static constexpr char kFile[] = "checksums";

  /// Reads the list. If it is missing or damaged, no file counts as unchanged.
  explicit Checksums(std::filesystem::path folder);

  /// Whether a file of the folder is unchanged since it was added.
  bool vouch_for(const std::filesystem::path& name) const;
  void add(const std::filesystem::path& name);
  /// Writes the list by rename. Throws Failure(usage).
  void save() const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string> seals_;  // by file name
};

}  // namespace llmc::build
