#include "compiler/tools/dataset/read_tokenizer.h"

#include <fmt/format.h>

#include <vector>

#include "data/mapped_file.h"
#include "data/tokenizer.h"
#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"

namespace llmc::data {
namespace fs = std::filesystem;

bool builds_data(const fs::path& file) {
  try {
    const Tokenizer tokenizer(file);
    return tokenizer.encodes() && tokenizer.separator_id() >= 0;
  } catch (const Failure&) {
    return false;
  }
}

fs::path tokenizer_file(const fs::path& path) {
  if (!disk::exists(path, Exit::data))
    throw Failure(
        Exit::data,
        fmt::format("there is no '{}'. Give a sentencepiece model, a tokenizer.json, or a folder with one. llmc "
                    "downloads nothing",
                    path.string()));
  if (!disk::is_folder(path, Exit::data)) return path;
  std::vector<fs::path> files;
  for (const char* name : {"tokenizer.model", "tokenizer.json"})
    if (disk::exists(path / name, Exit::data)) files.push_back(path / name);
  if (files.empty())
    throw Failure(Exit::data, fmt::format("'{}' has no tokenizer.model and no tokenizer.json. Give one of these, or a "
                                          "folder with one",
                                          path.string()));
  const bool second = files.size() == 2 && !builds_data(files[0]) && builds_data(files[1]);
  return files[second ? 1 : 0];
}

std::string read_tokenizer(const fs::path& file) {
  const MappedFile mapped(file);
  check_tokenizer_size(mapped.bytes().size(), file.string());
  std::string text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  mapped.check();
  return text;
}

std::string checksum_of(std::string_view bytes) {
  Checksum checksum;
  checksum.update(bytes.data(), bytes.size());
  return checksum.hex();
}

}  // namespace llmc::data
