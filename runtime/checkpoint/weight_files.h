// The weights of a folder as Hugging Face's loaders find them: of a released model, of an export, of a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/state_access.h"
#include "program/parameters.h"

namespace llmc {

/// The opened files of a folder: model.safetensors, or those that model.safetensors.index.json names.
class WeightFiles {
 public:
  /// Reads headers, and of a checkpoint holds the files against their checksums. Each of
  /// `parameters` has to be there once, in its shape, as F32, F16 or BF16: under its own name, or as rows of
  /// self_attn.qkv_proj (q, k, v) or mlp.gate_up_proj (gate, up). Nothing else may be there, but a head beside tied
  /// embeddings that is the embedding's equal, and rotary_emb.inv_freq, which follows from config.json. Throws
  /// Failure(checkpoint) that names file and tensor, and what to write instead.
  WeightFiles(const std::filesystem::path& folder, std::span<const ParameterInfo> parameters);

  /// "42 tensors of '../llama' (BF16)".
  const std::string& description() const { return description_; }

  /// Reads every weight. Throws Failure(checkpoint) as load().
  void check() const;

  /// Fills the weights of `access` and nothing else. Throws Failure(checkpoint) where a file cannot be read, or a
  /// weight is not finite.
  void load(StateAccess& access) const;

 private:
  struct Found {
    const safetensors::Reader* reader;
    const safetensors::Entry* entry;
    ParameterInfo parameter;
    std::int64_t first;  // element of the entry
  };

  using Take = std::function<void(std::int64_t offset, std::span<const float> values)>;
  void read(const Take& take) const;
  void open(const std::filesystem::path& folder);
  void match(const std::filesystem::path& folder, std::span<const ParameterInfo> parameters);

  std::vector<std::unique_ptr<safetensors::Reader>> readers_;
  std::vector<Found> found_;
  std::string description_;
};

}  // namespace llmc
