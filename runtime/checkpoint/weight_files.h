// Reads the weights of a Hugging Face folder: a released model, an export, or a checkpoint.
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
#include "program/weight_form.h"

namespace llmc {

/// Open files of a folder: model.safetensors, or without it the files named by model.safetensors.index.json.
class WeightFiles {
 public:
  /// Reads headers, and checks checksums in a checkpoint. `form`: of the files, which are a checkpoint's without it.
  /// Each of `parameters` must occur once, in its shape, as F32, F16 or BF16, under its own name or as rows of
  /// self_attn.qkv_proj (q, k, v) or mlp.gate_up_proj (gate, up). Other tensors are refused, except a head equal to
  /// tied embeddings, and rotary_emb.inv_freq, which follows from config.json. In the files of a model with several
  /// parts, the language model's tensors have a prefix, which that of the only embedding shows: language_model.model.
  /// or model.language_model. in place of model.; other parts are ignored. Throws Failure(checkpoint) naming file and
  /// tensor, with advice.
  WeightFiles(const std::filesystem::path& folder, std::span<const ParameterInfo> parameters, WeightForm form = {});

  /// "42 tensors of '../llama' (BF16)", with the prefix if it is not model.
  const std::string& description() const { return description_; }

  /// Reads every weight. Throws Failure(checkpoint) like load().
  void check() const;

  /// Fills only the weights of `access`. Throws Failure(checkpoint) if a file cannot be read or a weight is not finite.
  void load(StateAccess& access) const;

 private:
  struct Found {
    const safetensors::Reader* reader;
    const safetensors::Entry* entry;
    ParameterInfo parameter;
    std::int64_t first;  // first element within the entry
  };

  using Take = std::function<void(std::int64_t offset, std::span<const float> values)>;
  void read(const Take& take) const;
  void open(const std::filesystem::path& folder);
  void match(const std::filesystem::path& folder, std::span<const ParameterInfo> parameters);

  WeightForm form_;
  std::vector<std::unique_ptr<safetensors::Reader>> readers_;
  std::vector<Found> found_;
  std::string description_;
};

}  // namespace llmc
