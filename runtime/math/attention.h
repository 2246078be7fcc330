// Causal grouped-query attention on a GPU, built once at start with cuDNN; and its memory needs, known without a
// toolkit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "device/mask.h"
#include "device/types.h"
#include "math/gemm.h"

namespace llmc {

/// A row of qkv is q [heads, head_dim], k [kv_heads, head_dim], v [kv_heads, head_dim]; pitches in elements.
struct AttentionShape {
  std::int64_t batch = 0, sequence = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t qkv_pitch = 0;  // also of dqkv
  std::int64_t out_pitch = 0;  // also of dout
  bool deterministic = true;   // backward without atomics: same bits every time
  int window = 0;              // keys that a query sees, itself the last; 0: all up to it
  float multiplier = 0;        // of the scores; 0: head_dim^-0.5
  bool documents = false;      // a query sees its own document only; not in cuDNN
  bool softcap = false;        // of the scores; not in cuDNN

  bool operator==(const AttentionShape&) const = default;
  constexpr Mask mask() const { return {static_cast<int>(sequence), window}; }
  /// Factor of the scores.
  float scale() const { return multiplier != 0 ? multiplier : 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

/// Implementation of a pass: cuDNN, or llmc's own kernels (templates/cuda), which the emitted project contains.
enum class AttentionBy : std::uint8_t { cudnn, portable };

/// One variant of the backward pass. All of them read the forward pass's lse.
struct BackwardWay {
  AttentionBy by = AttentionBy::cudnn;
  double predicted_ms = 0;  // per layer and micro-batch; 0 without known rates
  std::size_t workspace_bytes = 0;
};

/// Backward pass of the emitted kernels: arguments of Attention::backward, with a workspace for a BackwardWay.
using OwnBackward = void (*)(Stream& stream, const bf16* dout, const bf16* out, const bf16* qkv, const float* lse,
                             bf16* dqkv, float* workspace, const float* rope_table);

/// The emitted kernel that rotates dq and dk back: RoPE's backward pass.
using RotateBack = void (*)(Stream& stream, bf16* dqkv, const float* rope_table);

/// Data of a trainer whose forward pass uses cuDNN.
struct AttentionPlan {
  AttentionShape shape;
  std::span<const BackwardWay> ways;    // one or more, the plan's choice first
  OwnBackward own = nullptr;            // null if no variant is portable
  RotateBack rotate_back = nullptr;     // follows cuDNN's backward pass; null if no variant rotates
  const AttentionPlan* next = nullptr;  // of another shape or mask; null for the last
};

/// Backward runs over equal slices of the batch, and if one sequence is still too much, over groups of heads.
struct AttentionSlice {
  std::int64_t batch = 0, kv_heads = 0;
};

constexpr std::size_t kAttentionWorkspaceLimit = std::size_t{1152} << 20;  // four sequences of the reference run

/// Device memory that backward needs for a slice: the most that cuDNN 9.19 requests on sm_80, 90, 100 and 120.
constexpr std::size_t attention_slice_bytes(const AttentionShape& shape, AttentionSlice slice) {
  const auto round_up = [](std::int64_t n, std::int64_t to) {
    return static_cast<std::size_t>((n + to - 1) / to * to);
  };
  const std::size_t group = static_cast<std::size_t>(shape.heads / shape.kv_heads);
  const std::size_t heads = static_cast<std::size_t>(slice.batch * slice.kv_heads) * group;
  const std::size_t rows = round_up(shape.sequence, 1), columns = round_up(shape.head_dim, 1);
  const std::size_t dq = rows * columns * 4;  // sums in fp32
  // Without atomics dq is a separate product: dS of every score is stored in bf16. Blackwell stores dq instead.
  const std::size_t scores = round_up(shape.sequence, 64) * round_up(shape.sequence, 128) * 2;
  const std::size_t queries =
      shape.deterministic ? std::max(scores, dq) : dq + round_up(shape.sequence, 8) * columns * 4;
  const std::size_t keys = group > 1 ? 2 * rows * columns * 2 : 0;  // dk and dv of each head, bf16, before summation
  const std::size_t row_sums = rows * 4;                            // dot(dout, out)
  constexpr std::size_t kFixed = std::size_t{1} << 20;              // 256 bytes, and a margin for other versions
  return heads * (queries + keys + row_sums) + kFixed;
}

/// Largest equal slices whose workspace fits into kAttentionWorkspaceLimit, or the smallest possible ones.
constexpr AttentionSlice attention_slice(const AttentionShape& shape) {
  AttentionSlice slice = {1, 1};
  for (std::int64_t batch = shape.batch; batch > 0; --batch) {
    slice = {batch, shape.kv_heads};
    if (shape.batch % batch == 0 && attention_slice_bytes(shape, slice) <= kAttentionWorkspaceLimit) return slice;
  }
  for (std::int64_t kv_heads = shape.kv_heads; kv_heads > 0; --kv_heads) {
    slice = {1, kv_heads};
    if (shape.kv_heads % kv_heads == 0 && attention_slice_bytes(shape, slice) <= kAttentionWorkspaceLimit) return slice;
  }
  return slice;
}

/// Bytes of backward's `workspace`, for the plan. The trainer checks at start that they suffice for cuDNN.
constexpr std::size_t attention_workspace_bytes(const AttentionShape& shape) {
  return attention_slice_bytes(shape, attention_slice(shape));
}

/// Explains why cuDNN cannot run this on a GPU of `capability` (90 is 9.0), with advice; empty if it can. Follows the
/// documentation of cuDNN 9; the trainer queries the library itself at start.
inline std::string attention_refusal(const AttentionShape& shape, DType compute, int capability) {
  if (compute != DType::bf16)
    return std::string(compute == DType::f32 ? "cuDNN's attention does not support fp32"
                                             : "llmc uses cuDNN's attention in bf16 only") +
           ". Write precision.compute: bf16, or target.attention: auto";
  if (shape.documents)
    return "cuDNN's attention has no masks of documents that are deterministic and of constant shapes. Write "
           "target.attention: auto, or data.documents.mask: false";
  if (shape.softcap)
    return "cuDNN's attention has no soft cap together with a causal mask. Write target.attention: auto, or "
           "model.attn_logit_softcapping: none";
  if (shape.kv_heads <= 0 || shape.heads % shape.kv_heads != 0)
    return "model.num_key_value_heads must divide model.num_attention_heads";
  // cuDNN's backward pass for heads wider than 128 exists only on Hopper.
  const std::int64_t widest = capability / 10 == 9 ? 256 : 128;
  if (shape.head_dim % 8 != 0 || shape.head_dim > widest)
    return "model.head_dim is " + std::to_string(shape.head_dim) + "; cuDNN's attention on sm_" +
           std::to_string(capability) + " takes multiples of 8 up to " + std::to_string(widest);
  if (shape.sequence < 2) return "batch.sequence_length must be at least 2: cuDNN has no attention over one token";
  if (shape.qkv_pitch % 8 != 0 || shape.out_pitch % 8 != 0)
    return "rows of q, k, v and of the output must be multiples of 16 bytes";
  if (capability < 80)
    return "bf16 attention needs a GPU of compute capability 8.0 or newer; this is sm_" + std::to_string(capability);
  return "";
}

/// Same for llmc's own kernels (templates/cuda), which need no library.
inline std::string portable_attention_refusal(const AttentionShape& shape, int capability) {
  if (shape.kv_heads <= 0 || shape.heads % shape.kv_heads != 0)
    return "model.num_key_value_heads must divide model.num_attention_heads";
  if (shape.head_dim % 2 != 0 || shape.head_dim > 256)
    return "model.head_dim is " + std::to_string(shape.head_dim) + "; attention on CUDA supports even values up to 256";
  if (capability < 80)
    return "attention needs a GPU of compute capability 8.0 or newer; this is sm_" + std::to_string(capability);
  return "";
}

/// 91900 for 9.19.0, as stored in tuned.json.
std::size_t cudnn_version();

/// "cuDNN 9.19.0"
inline std::string cudnn_name(std::size_t version = cudnn_version()) {
  return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// Explains why a release of cuDNN that is known to be wrong, or that lacks the backward pass, must not compute these
/// passes on a GPU of this compute capability (90 is 9.0), with advice; empty if it may.
inline std::string cudnn_release_refusal(std::size_t version, const AttentionShape& shape, bool backward,
                                         int capability) {
  std::string fault;
  if (version == 91000 || version == 91001)
    fault = "whose attention gives wrong results";
  else if (backward && version < 91501 && shape.sequence % 128 != 0)
    fault = "whose attention gives wrong gradients in CUDA graphs unless batch.sequence_length is a multiple of 128";
  else if (backward && version < 91800 && shape.deterministic && capability / 10 == 10)
    fault = "which has no deterministic backward pass of attention on GPUs of compute capability 10";
  if (fault.empty()) return "";
  return "this is " + cudnn_name(version) + ", " + fault +
         ". Install another release of cuDNN 9, or write target.attention: portable";
}

class Attention {
 public:
  /// Builds the cuDNN plans of the chosen variant, which takes seconds: the one that tuned.json names for this device,
  /// version and shape, else the first. Throws Failure(toolchain) naming shape, types and version if cuDNN has none,
  /// Failure(does_not_fit) if it needs more workspace than attention_workspace_bytes() planned.
  Attention(MathLibrary& library, const AttentionPlan& plan);
  Attention(Attention&&) noexcept;
  ~Attention();

  /// out [batch * sequence, heads * head_dim] = softmax(q k^T / sqrt(head_dim), under the mask) v. lse [batch, heads,
  /// sequence], fp32: natural logarithm of each query's sum of exponentials. qkv is already rotated. Uses the library's
  /// workspace.
  void forward(Stream& stream, const void* qkv, void* out, float* lse) const;

  /// Writes dq, dk, dv to dqkv, laid out like qkv (columns past the three are unchanged). `workspace`: the largest that
  /// a variant needs, aligned to 256 bytes. Where the plan rotates, dq and dk are rotated back by the angles of
  /// rope_table.
  void backward(Stream& stream, const void* dout, const void* out, const void* qkv, const float* lse, void* dqkv,
                void* workspace, const float* rope_table = nullptr) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
