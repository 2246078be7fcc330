#include "trainer/startup/weights.h"

#include <fmt/format.h>

#include "checkpoint/shards.h"
#include "error.h"
#include "text/shell.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

// Files that transformers reads (with an index for several files), and files only other programs read.
constexpr const char* kOfTransformers[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
constexpr const char* kOthers[] = {"consolidated.00.pth", "consolidated.safetensors", "tf_model.h5",
                                   "flax_model.msgpack"};

bool is_there(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error);
}

}  // namespace

bool has_safetensors(const fs::path& folder) {
  return is_there(folder / "model.safetensors") || is_there(folder / kModelIndex);
}

std::string other_weights(const fs::path& folder) {
  for (const char* name : kOfTransformers)
    if (is_there(folder / name)) return name;
  for (const char* name : kOthers)
    if (is_there(folder / name)) return name;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".gguf") return entry->path().filename().string();
  return {};
}

std::string conversion(const fs::path& folder, const std::string& file) {
  for (const char* name : kOfTransformers)
    if (file == name)
      return fmt::format(
          "python3 -c 'import sys, transformers as t; t.AutoModelForCausalLM.from_pretrained(sys.argv[1], "
          "torch_dtype=\"auto\").save_pretrained(sys.argv[1])' {}",
          shell_word(folder.string()));
  return "fetch the model's folder with model.safetensors, as transformers writes it";
}

void check_has_safetensors(const fs::path& folder) {
  if (has_safetensors(folder)) return;
  const std::string other = other_weights(folder);
  throw Failure(Exit::checkpoint,
                other.empty()
                    ? fmt::format("'{}' has neither model.safetensors nor {}, the only files that weights are read "
                                  "from. transformers writes them with save_pretrained(DIR, safe_serialization=True)",
                                  folder.string(), kModelIndex)
                    : fmt::format("'{}' has its weights in {}, but llmc reads only safetensors. Convert them:\n  {}",
                                  folder.string(), other, conversion(folder, other)));
}

}  // namespace llmc
