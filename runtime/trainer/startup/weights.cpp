#include "trainer/startup/weights.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <vector>

#include "checkpoint/shards.h"
#include "error.h"
#include "text/shell.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

constexpr const char* kAnyFormat = "llmc reads only safetensors";
constexpr const char* kFetch = "fetch the model's folder with model.safetensors, as transformers writes it";
constexpr const char* kConvert =
    "convert them:\n  python3 -c 'import sys, transformers as t; t.AutoModelForCausalLM.from_pretrained(sys.argv[1], "
    "torch_dtype=\"auto\").save_pretrained(sys.argv[1])' {}";

struct UnreadForm {
  const char *pattern, *why, *advice;  // advice: may contain the folder as {}
};

// The first form that a folder has is reported, so those that transformers converts precede the others. Other files of
// a training run, such as optimizer.pt and training_args.bin, match none.
constexpr UnreadForm kUnreadForms[] = {
    {"pytorch_model.bin", kAnyFormat, kConvert},
    {"pytorch_model.bin.index.json", kAnyFormat, kConvert},
    {"consolidated*.safetensors", "its tensors have other names than those of transformers", kFetch},
    {"consolidated*.pth", kAnyFormat, kFetch},
    {"tf_model*.h5", kAnyFormat, kFetch},
    {"flax_model*.msgpack", kAnyFormat, kFetch},
    {"*.gguf", kAnyFormat, kFetch},
    {"adapter_model*.safetensors", "it is an adapter and not a whole model",
     "merge it into its base model (merge_and_unload() of peft) and save that with save_pretrained()"},
    {"*.safetensors", "llmc reads only model.safetensors and the files of model.safetensors.index.json",
     "rename it to model.safetensors, if it is a whole model that transformers wrote"},
};

// Parts of a model in several files, with the index that lists all of them.
constexpr struct {
  const char *pattern, *index;
} kParts[] = {{"model-[0-9]*-of-[0-9]*.safetensors", kModelIndex},
              {"pytorch_model-[0-9]*-of-[0-9]*.bin", "pytorch_model.bin.index.json"}};

bool is_there(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error);
}

/// The first file by name that matches; empty if none does.
std::string first_match(const fs::path& folder, const char* pattern) {
  std::string first;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (fnmatch(pattern, name.c_str(), FNM_PERIOD) == 0 && (first.empty() || name < first)) first = name;
  }
  return first;
}

[[noreturn]] void refuse_part(const fs::path& folder, const std::string& found, const std::string& missing) {
  throw Failure(Exit::checkpoint, fmt::format("'{}' has {} but not {}: the download of its weights is incomplete. "
                                              "Fetch the rest of the folder",
                                              folder.string(), found, missing));
}

}  // namespace

bool has_safetensors(const fs::path& folder) {
  return is_there(folder / "model.safetensors") || is_there(folder / kModelIndex);
}

UnreadWeights unread_weights(const fs::path& folder) {
  if (has_safetensors(folder)) return {};
  for (const UnreadForm& form : kUnreadForms)
    if (std::string file = first_match(folder, form.pattern); !file.empty())
      return {std::move(file), form.why, fmt::format(fmt::runtime(form.advice), shell_word(folder.string()))};
  return {};
}

void check_complete(const fs::path& folder) {
  if (is_there(folder / "model.safetensors")) return;
  if (is_there(folder / kModelIndex)) {
    for (const auto& [tensor, file] : read_model_index(folder / kModelIndex))
      if (!is_there(folder / file)) refuse_part(folder, kModelIndex, file);
    return;
  }
  for (const auto& part : kParts)
    if (const std::string file = first_match(folder, part.pattern); !file.empty() && !is_there(folder / part.index))
      refuse_part(folder, file, part.index);
}

void check_has_safetensors(const fs::path& folder) {
  check_complete(folder);
  if (has_safetensors(folder)) return;
  const UnreadWeights unread = unread_weights(folder);
  throw Failure(Exit::checkpoint,
                unread.file.empty()
                    ? fmt::format("'{}' has neither model.safetensors nor {}, the only files that weights are read "
                                  "from. transformers writes them with save_pretrained(DIR, safe_serialization=True)",
                                  folder.string(), kModelIndex)
                    : fmt::format("'{}' has its weights in {}, but {}. First {}", folder.string(), unread.file,
                                  unread.why, unread.advice));
}

}  // namespace llmc
