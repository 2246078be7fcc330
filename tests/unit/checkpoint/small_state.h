// A model of a few hundred parameters with all awkward cases: padded rows, fused weights, vectors, tied embeddings.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "../folder.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/retention.h"
#include "checkpoint/save.h"
#include "error.h"

namespace llmc {

inline constexpr std::int64_t kElements = 640;

inline std::vector<ParameterInfo> small_parameters() {
  const auto matrix = [](const char* name, std::int64_t offset, std::int64_t rows, std::int64_t cols) {
    return ParameterInfo{name, offset, rows, cols, (cols + 7) / 8 * 8, true, 0, 0.02f, 0, 1};
  };
  const auto vector = [](const char* name, std::int64_t offset, std::int64_t cols) {
    return ParameterInfo{name, offset, 1, cols, cols, false, 1, 0, 1, 2};
  };
  return {matrix("model.embed_tokens.weight", 0, 11, 6),
          vector("model.layers.0.input_layernorm.weight", 128, 6),
          matrix("model.layers.0.self_attn.q_proj.weight", 192, 8, 6),  // q, k, v: one fused weight
          matrix("model.layers.0.self_attn.k_proj.weight", 256, 4, 6),
          matrix("model.layers.0.self_attn.v_proj.weight", 288, 4, 6),
          matrix("model.layers.0.mlp.down_proj.weight", 384, 6, 13),
          vector("model.norm.weight", 576, 6),
          matrix("lm_head.weight", 0, 11, 6)};  // tied
}

/// Buffers in host memory, owned by the caller, each for `elements` elements of parameters.
class HostState final : public StateAccess {
 public:
  HostState(std::vector<SavedBuffer> buffers, std::vector<std::byte*> memory, std::int64_t elements)
      : buffers_(std::move(buffers)), memory_(std::move(memory)), elements_(elements) {}
  /// Weights and AdamW's two moments.
  HostState(float* weights, float* exp_avg, float* exp_avg_sq, std::int64_t elements)
      : HostState(adamw_buffers(),
                  {reinterpret_cast<std::byte*>(weights), reinterpret_cast<std::byte*>(exp_avg),
                   reinterpret_cast<std::byte*>(exp_avg_sq)},
                  elements) {}
  static std::vector<SavedBuffer> adamw_buffers() { return {{}, {.prefix = "exp_avg."}, {.prefix = "exp_avg_sq."}}; }

  std::span<const SavedBuffer> buffers() const override { return buffers_; }
  void gather(std::size_t, const ParameterInfo&) override {}
  void read(std::size_t buffer, std::int64_t offset, std::int64_t count, std::byte* out) override {
    std::copy_n(at(buffer, offset, count), bytes_of(buffers_[buffer].dtype, count), out);
  }
  void write(std::size_t buffer, std::int64_t offset, std::int64_t count, const std::byte* values) override {
    std::copy_n(values, bytes_of(buffers_[buffer].dtype, count), at(buffer, offset, count));
  }

 private:
  std::byte* at(std::size_t buffer, std::int64_t offset, std::int64_t count) const {
    const std::int64_t elements = in_blocks(elements_, buffers_[buffer].block);
    if (offset < 0 || count < 0 || offset > elements || count > elements - offset)
      throw Failure(Exit::internal, "access outside of the training state");
    return memory_[buffer] + bytes_of(buffers_[buffer].dtype, offset);
  }

  std::vector<SavedBuffer> buffers_;
  std::vector<std::byte*> memory_;
  std::int64_t elements_;
};

/// Three flat buffers; elements of parameters are distinct numbers, padding is zero.
struct SmallState {
  std::vector<float> buffers[3];
  HostState access;

  explicit SmallState(float seed = 0)
      : buffers{std::vector<float>(kElements), std::vector<float>(kElements), std::vector<float>(kElements)},
        access(buffers[0].data(), buffers[1].data(), buffers[2].data(), kElements) {
    if (seed == 0) return;
    for (int kind = 0; kind < 3; ++kind)
      for (const ParameterInfo& p : small_parameters())
        for (std::int64_t r = 0; r < p.rows; ++r)
          for (std::int64_t c = 0; c < p.cols; ++c) {
            const std::int64_t i = p.offset + r * p.pitch + c;
            buffers[kind][static_cast<std::size_t>(i)] = std::sin(seed * 3.7f + static_cast<float>(kind * 1000 + i));
          }
  }
  bool operator==(const SmallState& other) const {
    return buffers[0] == other.buffers[0] && buffers[1] == other.buffers[1] && buffers[2] == other.buffers[2];
  }
};

inline TrainState small_train_state(std::int64_t step) {
  return {step,
          plain_position(static_cast<std::uint64_t>(step) * 4, {1, {{8, 3}, {16, static_cast<std::uint64_t>(step)}}}),
          0xffffffffffffffffu,
          1337,
          "5eed",
          "da7a",
          "70c"};
}

inline const CheckpointTexts kTexts = {"{\"model_type\": \"llama\"}\n", "model: {}\n"};

/// Saves a checkpoint at once, as a trainer does in parts, and returns its path.
inline std::filesystem::path save_checkpoint(const std::filesystem::path& run, const TrainState& state,
                                             const CheckpointTexts& texts, std::span<const ParameterInfo> parameters,
                                             StateAccess& access, const SaveOptions& options = {}) {
  CheckpointSave save(run, state, texts, parameters, access.buffers(), options);
  save.write(access);
  save.settle();
  save.publish();
  const std::filesystem::path path = save.finish();
  if (options.savers.self.index == 0) apply_retention(run, state.step, options.retention, options.log);
  return path;
}

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_all(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

/// Names of hidden entries: only a killed save may leave them.
inline std::vector<std::string> hidden_entries(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  if (std::filesystem::exists(directory))
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      if (entry.path().filename().string().starts_with(".")) names.push_back(entry.path().filename().string());
  return names;
}

}  // namespace llmc
