#include "compiler/tools/dataset/read_tokenizer.h"

#include <fmt/format.h>

#include "data/mapped_file.h"
#include "error.h"
#include "files/durable_file.h"

namespace llmc::data {
namespace fs = std::filesystem;

std::string read_tokenizer(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error) && !error)
    throw Failure(Exit::data, fmt::format("there is no '{}'. Give a sentencepiece model, or the folder of a data set. "
                                          "llmc downloads nothing. To use a tokenizer from the Hugging Face Hub, make "
                                          "shards with tokens/hf_to_shards.py (docs/how-to/data-from-hugging-face.md)",
                                          path.string()));
  const bool folder = fs::is_directory(path, error);
  const fs::path model = folder ? path / "tokenizer.model" : path;
  if (folder && !fs::exists(model, error))
    throw Failure(
        Exit::data,
        fmt::format(
            "'{}' has no tokenizer.model{}", path.string(),
            fs::exists(path / "tokenizer.json", error)
                ? " except a tokenizer.json, with which llmc can decode but not encode. Make shards with "
                  "tokens/hf_to_shards.py (docs/how-to/data-from-hugging-face.md), or give a sentencepiece model"
                : ". Give a sentencepiece model, or the folder of a data set"));
  const MappedFile file(model);
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
