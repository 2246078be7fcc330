// Layout of the model's tensors inside the flat buffers of weights, gradients and optimizer state.
#pragma once

#include <cstdint>
#include <optional>

namespace llmc {

enum class OptimizerKind : std::uint8_t;  // program/optimizers.h

/// Part of the model that a group of parameters is: the last word of keys such as optimizer.rate_scale.head. vectors:
/// norms and biases. A head that is tied to the embedding is part of it.
enum class ParameterRole { matrices, head, embedding, vectors };
inline constexpr const char* kParameterRoleNames[] = {"matrices", "head", "embedding", "vectors"};

/// A set of groups of parameters, a bit for each ParameterInfo::group.
using GroupSet = std::uint32_t;
inline constexpr GroupSet kAllGroups = ~GroupSet{0};
constexpr bool holds(GroupSet groups, int group) { return groups >> group & 1; }

/// Parameters that their optimizer treats alike.
struct ParameterGroup {
  const char* name;                             // for people
  ParameterRole role;                           // of its rate and weight decay
  std::optional<OptimizerKind> optimizer = {};  // nothing: that of optimizer.kind
};

/// One tensor under its Hugging Face name. A fused weight (q, k, v; gate, up) is several of these, at different
/// offsets.
struct ParameterInfo {
  const char* name;            // "model.layers.3.self_attn.q_proj.weight"
  std::int64_t offset;         // offset in elements in each flat parameter buffer
  std::int64_t rows, cols;     // logical shape [rows, cols]; vectors have rows == 1 and rank 1 in files
  std::int64_t pitch;          // elements between rows; padding is always zero (vectors: their length)
  bool matrix;                 // rank 2 in files
  int group;                   // index into ProgramInfo::groups
  float init_std;              // > 0: standard deviation of normal draws
  float init_value;            // otherwise: value of every element
  std::uint64_t key;           // xxh64 of the name: the stream of its random draws
  std::int64_t first_row = 0;  // index of its first row's element in state that has one for each row
};

/// Elements from a parameter's first to its last in a flat buffer, the padding between rows included.
constexpr std::int64_t flat_elements(const ParameterInfo& p) { return (p.rows - 1) * p.pitch + p.cols; }

}  // namespace llmc
