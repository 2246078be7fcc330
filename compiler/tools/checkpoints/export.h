// Exports a checkpoint's model for other programs: `llmc checkpoint export`; or the mean of several: `llmc checkpoint
// average`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "program/dtype.h"

namespace llmc::checkpoints {

struct ExportOptions {
  std::filesystem::path checkpoint, out;
  std::vector<std::filesystem::path> averaged = {};  // further checkpoints: the weights become the mean of all
  std::filesystem::path tokenizer;                   // a tokenizer or its folder; empty: the run's; "none"
  std::optional<DType> dtype = {};                   // f32, bf16 or f16; nothing: the run's compute dtype
  std::int64_t shard_bytes = 5'000'000'000;          // of tensors in a file
};

struct Exported {
  DType dtype;
  std::int64_t parameters = 0, bytes = 0, files = 0;  // of weights
  std::string tokenizer;                              // its file; empty: none
  bool tokenizer_changed = false;                     // it no longer adds tokens around a text
  std::filesystem::path looked_for;                   // where, if none was found; empty: the checkpoint is not in a run
                                                      // folder
  std::string not_loaded;                             // why transformers 5 refuses the model; empty: it loads it
};

/// Writes a Hugging Face folder: weights in safetensors (bf16 and fp16 are rounded to nearest, ties to even),
/// config.json, generation_config.json and a README.md. If the run has a tokenizer, adds tokenizer.model or
/// tokenizer.json with tokenizer_config.json. The folder appears by one rename. Checkpoints are verified first. Memory:
/// four blocks of 16 MiB. Throws Failure(checkpoint) if `out` is not a new or an empty folder, if a checkpoint is
/// damaged, or if those to average are not of one model and tokenizer (average.h). Throws Failure(data) if the
/// tokenizer cannot be read, or is not the checkpoint's.
Exported export_model(const ExportOptions& options);

}  // namespace llmc::checkpoints
