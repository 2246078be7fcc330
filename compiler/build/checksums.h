// Sizes and checksums of built files, so that one which was cut or altered since is built again.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace llmc::build {

/// "BYTES XXH3" of a regular file; empty where there is none, or where it cannot be read.
std::string seal_of(const std::filesystem::path& file);

/// The seals of the files in a folder, in its file `checksums`.
class Checksums {
 public:
  static constexpr char kFile[] = "checksums";

  /// Reads them; a list that is missing or damaged vouches for nothing.
  explicit Checksums(std::filesystem::path folder);

  /// Whether a file of the folder is as it was when it was added.
  bool vouch_for(const std::filesystem::path& name) const;
  void add(const std::filesystem::path& name);
  /// Writes the list by rename. Throws Failure(usage).
  void save() const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string> seals_;  // by file name
};

}  // namespace llmc::build
