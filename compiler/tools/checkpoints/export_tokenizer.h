// Finds the tokenizer of an exported model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "compiler/tools/checkpoints/contents.h"

namespace llmc::checkpoints {

struct ModelTokenizer {
  std::filesystem::path file;
  const char* name = "tokenizer.model";  // name of the written file, or tokenizer.json
  std::string model;                     // the bytes to write
  bool changed = false;                  // `model` no longer adds tokens around a text, as the file does
  std::int32_t tokens = 0;
  std::string config;  // tokenizer_config.json, as transformers reads it
  std::string json;    // of a trained tokenizer.model: the tokenizer.json next to it; empty: none
};

struct FoundTokenizer {
  std::optional<ModelTokenizer> tokenizer;
  std::optional<std::int32_t> eos;   // the token that ended documents in training, which ends a text
  std::filesystem::path looked_for;  // where the run has its tokenizer; empty: the checkpoint is not in a run folder
};

/// Returns the tokenizer `named`, a file or a folder. If that is empty, the one that the checkpoint's run names, or
/// that is next to its shards. `eos` is the token of the checkpoint's state or of data.documents.separator, else the
/// one that the run's data record, else the tokenizer's; tokenizer_config.json names it. "none": no tokenizer. A
/// tokenizer.json of a model that was trained from random weights adds no token around a text, as its data had none.
/// Throws Failure(data) if it cannot be read, if its checksum differs from the checkpoint's, or if it gives ids that
/// the model lacks.
FoundTokenizer find_tokenizer(const Contents& contents, const std::filesystem::path& named);

}  // namespace llmc::checkpoints
