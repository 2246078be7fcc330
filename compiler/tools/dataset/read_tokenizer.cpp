#include "compiler/tools/dataset/read_tokenizer.h"

#include <fmt/format.h>

#include "data/mapped_file.h"
#include "data/tokenizer.h"
#include "error.h"
#include "files/durable_file.h"

namespace llmc::data {
namespace fs = std::filesystem;

std::string read_tokenizer(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error) && !error)
    throw Failure(
        Exit::data,
        fmt::format("there is no '{}'. Give a sentencepiece model, a tokenizer.json, or a folder with one. llmc "
                    "downloads nothing",
                    path.string()));
  fs::path model = path;
  if (fs::is_directory(path, error)) {
    model = path / "tokenizer.model";
    if (!fs::exists(model, error)) model = path / "tokenizer.json";
    if (!fs::exists(model, error))
      throw Failure(Exit::data,
                    fmt::format("'{}' has no tokenizer.model and no tokenizer.json. Give one of these, or a "
                                "folder with one",
                                path.string()));
  }
  const MappedFile file(model);
  check_tokenizer_size(file.bytes().size(), model.string());
  std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  file.check();
  return text;
}

std::string checksum_of(std::string_view bytes) {
  Checksum checksum;
  checksum.update(bytes.data(), bytes.size());
  return checksum.hex();
}

}  // namespace llmc::data
