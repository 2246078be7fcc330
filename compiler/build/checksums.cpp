#include "compiler/build/checksums.h"

#include <fmt/format.h>

#include <sstream>
#include <utility>

#include "compiler/emit/project.h"
#include "files/disk.h"
#include "files/durable_file.h"

namespace llmc::build {

namespace fs = std::filesystem;

std::string seal_of(const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  const std::string checksum = file_checksum(file);
  return error || checksum.empty() ? "" : fmt::format("{} {}", bytes, checksum);
}

Checksums::Checksums(fs::path folder) : folder_(std::move(folder)) {
  std::istringstream list(disk::text(folder_ / kFile).value_or(""));
  std::string name, bytes, xxh3;
  while (list >> name >> bytes >> xxh3) seals_[name] = bytes + " " + xxh3;
}

bool Checksums::vouch_for(const fs::path& name) const {
  const auto seal = seals_.find(name.string());
  return seal != seals_.end() && seal->second == seal_of(folder_ / name);
}

void Checksums::add(const fs::path& name) { seals_[name.string()] = seal_of(folder_ / name); }

void Checksums::save() const {
  std::string text;
  for (const auto& [name, seal] : seals_)
    if (std::error_code missing; fs::exists(folder_ / name, missing)) text += fmt::format("{} {}\n", name, seal);
  emit::write_file(folder_ / kFile, text);
}

}  // namespace llmc::build
