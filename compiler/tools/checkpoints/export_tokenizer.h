// The tokenizer that goes with an exported model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "compiler/tools/checkpoints/contents.h"

namespace llmc::checkpoints {

struct ModelTokenizer {
  std::filesystem::path file;
  const char* name = "tokenizer.model";  // of the file in the folder that is written, or tokenizer.json
  std::string model;                     // the file's bytes
  std::int32_t tokens = 0;
  std::optional<std::int32_t> eos;  // the token that ends a document
  std::string config;               // tokenizer_config.json, as transformers read it
};

struct FoundTokenizer {
  std::optional<ModelTokenizer> tokenizer;
  std::filesystem::path looked_for;  // where the run has its tokenizer; empty: the checkpoint lies in no run folder
};

/// The tokenizer `named`, a file or a folder, or where that is empty the one that the run of the checkpoint names, or
/// that lies beside its shards. Throws Failure(data) where it cannot be read, has another checksum than the checkpoint
/// says, or more tokens than the model.
FoundTokenizer find_tokenizer(const Contents& contents, const std::filesystem::path& named);

}  // namespace llmc::checkpoints
