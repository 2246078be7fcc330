// The training step of llama-1b: ops in order, at their offsets in the arena.
// Made by llmc from spec 67f153b1f9efd53ce0b214734deeb5f9; change the spec, not this file.
//
// A micro-batch is 16 sequences of 2048 tokens. Activations are written with =; gradients of parameters with = by
// the first micro-batch of a step and with += by the later ones.

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/collectives.h"
#include "device/launch.h"
#include "device/cuda/arch.h"
#include "device/range.h"
#include "math/attention.h"
#include "kernels.h"
#include "math/gemm.h"
#include "program/shards.h"
#include "step.h"

namespace llmc {

namespace {

// Byte offsets in the arena of 56334209536 bytes, and byte strides from one layer to the next.
constexpr std::size_t kMasters = 0;
constexpr std::size_t kCopiesBf16 = 4966621184;
constexpr std::size_t kGradients = 7449931776;
constexpr std::size_t kScalars = 12416552960;
constexpr std::size_t kTokens = 12416553216;
constexpr std::size_t kTargets = 12416684288;
constexpr std::size_t kEmbeddingOrder = 12416815360;
constexpr std::size_t kRunBegin = 12416946432;
constexpr std::size_t kRunToken = 12417077760;
constexpr std::size_t kRunCount = 12417208832;
constexpr std::size_t kAdamwScalars = 12417209088;
constexpr std::size_t kGroupScalars = 12417209344;
constexpr std::size_t kPositions = 12417209600;
constexpr std::size_t kChunks = 12417209856;
constexpr std::size_t kRopeTable = 12419635968;
constexpr std::size_t kResults = 12420160256;
constexpr std::size_t kLosses = 12420160512;
constexpr std::size_t kFirstChunk = 12420291584;
constexpr std::size_t kTensorNorms = 12420292352;
constexpr std::size_t kSampleLogits = 12420294144;
constexpr std::size_t kInitRules = 12428682752;
constexpr std::size_t kMathWorkspace = 12428689920;
constexpr std::size_t kStream = 12506305024;
constexpr std::size_t kStreamStride = 268435456;
constexpr std::size_t kKept = 17069707776;
constexpr std::size_t kKeptStride = 1682178048;
constexpr std::size_t kTransients = 43984556544;

// Indices into Step::places of offsets that depend on the number of ranks.
constexpr std::size_t kExpAvg = 0;
constexpr std::size_t kExpAvgSq = 1;

constexpr std::size_t kLayerMatrices = 60821504;  // elements from a layer's matrices to the next layer's
constexpr std::size_t kLayerVectors = 4096;       // the same for its vectors
constexpr int kChunkCount = 75809;                // of at most 16384 elements: the optimizer's units of work

}  // namespace

struct Step {
  Device& device;
  Stream& stream;
  Communicator& ranks;
  const Shares& shares;
  std::byte* arena;
  std::span<const std::size_t> places;  // offsets in the arena that depend on the number of ranks
  MathLibrary math;
  Gemm qkv_forward;            // [32768, 2048] x [3072, 2048]^T -> [32768, 3072] bf16
  Gemm o_forward;              // [32768, 2048] x [2048, 2048]^T -> [32768, 2048] fp32 + residual
  Gemm gate_up_forward;        // [32768, 2048] x [16384, 2048]^T -> [32768, 16384] bf16
  Gemm down_forward;           // [32768, 8192] x [2048, 8192]^T -> [32768, 2048] fp32 + residual
  Gemm lm_head_forward;        // [8192, 2048] x [131072, 2048]^T -> [8192, 131072] bf16
  Gemm lm_head_dgrad;          // [8192, 131072] x [131072, 2048] -> [8192, 2048] bf16
  Gemm lm_head_wgrad;          // [8192, 131072]^T x [8192, 2048] -> [131072, 2048] fp32, accumulates
  Gemm down_dgrad;             // [32768, 2048] x [2048, 8192] -> [32768, 8192] bf16
  Gemm down_wgrad;             // [32768, 2048]^T x [32768, 8192] -> [2048, 8192] fp32, accumulates
  Gemm gate_up_dgrad;          // [32768, 16384] x [16384, 2048] -> [32768, 2048] bf16
  Gemm gate_up_wgrad;          // [32768, 16384]^T x [32768, 2048] -> [16384, 2048] fp32, accumulates
  Gemm o_wgrad;                // [32768, 2048]^T x [32768, 2048] -> [2048, 2048] fp32, accumulates
  Gemm o_dgrad;                // [32768, 2048] x [2048, 2048] -> [32768, 2048] bf16
  Gemm qkv_dgrad;              // [32768, 3072] x [3072, 2048] -> [32768, 2048] bf16
  Gemm qkv_wgrad;              // [32768, 3072]^T x [32768, 2048] -> [3072, 2048] fp32, accumulates
  Gemm sample_logits_forward;  // [16, 2048] x [131072, 2048]^T -> [16, 131072] fp32
  Attention attention;

  Step(Device& device, Communicator& ranks, const Shares& shares, std::byte* arena,
       std::span<const std::size_t> places);

  /// Address at the planned offset `bytes` from the arena's start.
  template <class T>
  T* at(std::size_t bytes) const {
    return reinterpret_cast<T*>(arena + bytes);
  }
};

Step::Step(Device& d, Communicator& communicator, const Shares& of_rank, std::byte* memory,
           std::span<const std::size_t> shared)
    : device(d),
      stream(d.stream()),
      ranks(communicator),
      shares(of_rank),
      arena(memory),
      places(shared),
      math(d, memory + kMathWorkspace, 67108864),
      qkv_forward(math, kQkvForward),
      o_forward(math, kOForward),
      gate_up_forward(math, kGateUpForward),
      down_forward(math, kDownForward),
      lm_head_forward(math, kLmHeadForward),
      lm_head_dgrad(math, kLmHeadDgrad),
      lm_head_wgrad(math, kLmHeadWgrad),
      down_dgrad(math, kDownDgrad),
      down_wgrad(math, kDownWgrad),
      gate_up_dgrad(math, kGateUpDgrad),
      gate_up_wgrad(math, kGateUpWgrad),
      o_wgrad(math, kOWgrad),
      o_dgrad(math, kODgrad),
      qkv_dgrad(math, kQkvDgrad),
      qkv_wgrad(math, kQkvWgrad),
      sample_logits_forward(math, kSampleLogitsForward),
      attention(math, kAttention) {}

namespace {

// Events on the ranks' stream that the passes wait for; layers alternate between two.
constexpr int kVectorsGathered = 0;
constexpr int kEmbedGathered = 1;
constexpr int kLayerGathered = 2;

void embed(Step& s) {
  int* tokens = s.at<int>(kTokens);                      // [32768]
  float* embed_weight = s.at<float>(kMasters + 286720);  // [131072, 2048]
  float* x_first = s.at<float>(kStream);                 // [32768, 2048]

  const Range range(s.stream, "embed");
  launch(s.stream, Grid{32768, 128}, embedding_forward, tokens, embed_weight, x_first);
}

void layer_forward(Step& s, std::size_t layer) {
  float* x = s.at<float>(kStream + layer * kStreamStride);                                // [32768, 2048]
  float* attention_norm_weight = s.at<float>(kMasters + 4 * layer * kLayerVectors);       // [2048]
  bf16* attention_norm_out = s.at<bf16>(kTransients);                                     // [32768, 2048]
  float* attention_norm_rstd = s.at<float>(kKept + layer * kKeptStride);                  // [32768]
  bf16* qkv_weight = s.at<bf16>(kCopiesBf16 + 2 * (268511232 + layer * kLayerMatrices));  // [3072, 2048]
  bf16* qkv_raw = s.at<bf16>(kKept + 131072 + layer * kKeptStride);                       // [32768, 3072]
  float* rope_table = s.at<float>(kRopeTable);                                            // [2048, 64]
  bf16* qkv = s.at<bf16>(kKept + 131072 + layer * kKeptStride);                           // [32768, 3072], over qkv_raw
  bf16* attention_out = s.at<bf16>(kKept + 201457664 + layer * kKeptStride);              // [32768, 2048]
  float* attention_lse = s.at<float>(kKept + 335675392 + layer * kKeptStride);            // [512, 2048]
  bf16* o_weight = s.at<bf16>(kCopiesBf16 + 2 * (274802688 + layer * kLayerMatrices));    // [2048, 2048]
  float* x_mid = s.at<float>(kKept + 339869696 + layer * kKeptStride);                    // [32768, 2048]
  float* mlp_norm_weight = s.at<float>(kMasters + 4 * (2048 + layer * kLayerVectors));    // [2048]
  bf16* mlp_norm_out = s.at<bf16>(kTransients);                                           // [32768, 2048]
  float* mlp_norm_rstd = s.at<float>(kKept + 608305152 + layer * kKeptStride);            // [32768]
  bf16* gate_up_weight = s.at<bf16>(kCopiesBf16 + 2 * (278996992 + layer * kLayerMatrices));  // [16384, 2048]
  bf16* gate_up_out = s.at<bf16>(kKept + 608436224 + layer * kKeptStride);                    // [32768, 16384]
  bf16* swiglu_out = s.at<bf16>(kTransients);                                                 // [32768, 8192]
  bf16* down_weight = s.at<bf16>(kCopiesBf16 + 2 * (312551424 + layer * kLayerMatrices));     // [2048, 8192]
  float* x_next = s.at<float>(kStream + (layer + 1) * kStreamStride);                         // [32768, 2048]

  const Range range(s.stream, "layer_forward");
  launch(s.stream, Grid{32768, 128}, rms_norm_forward, x, attention_norm_weight, attention_norm_out,
         attention_norm_rstd);
  s.qkv_forward(s.stream, {.a = attention_norm_out, .b = qkv_weight, .d = qkv_raw});
  launch(s.stream, Grid{32768, 128}, rope, qkv_raw, rope_table);
  s.attention.forward(s.stream, qkv, attention_out, attention_lse);
  s.o_forward(s.stream, {.a = attention_out, .b = o_weight, .c = x, .d = x_mid});
  launch(s.stream, Grid{32768, 128}, rms_norm_forward, x_mid, mlp_norm_weight, mlp_norm_out, mlp_norm_rstd);
  s.gate_up_forward(s.stream, {.a = mlp_norm_out, .b = gate_up_weight, .d = gate_up_out});
  launch(s.stream, Grid{32768, 256}, swiglu_forward, gate_up_out, swiglu_out);
  s.down_forward(s.stream, {.a = swiglu_out, .b = down_weight, .c = x_mid, .d = x_next});
}

void head(Step& s) {
  float* x_last = s.at<float>(kStream + 16 * kStreamStride);       // [32768, 2048]
  float* final_norm_weight = s.at<float>(kMasters + 262144);       // [2048]
  bf16* final_norm_out = s.at<bf16>(kTransients + 2147483648);     // [32768, 2048]
  float* final_norm_rstd = s.at<float>(kTransients + 2415919104);  // [32768]

  const Range range(s.stream, "head");
  launch(s.stream, Grid{32768, 128}, rms_norm_forward, x_last, final_norm_weight, final_norm_out, final_norm_rstd);
}

void loss_chunk(Step& s, bool first, std::size_t chunk) {
  bf16* final_norm_out = s.at<bf16>(kTransients + 2147483648 + chunk * 33554432);    // [32768, 2048]
  bf16* embed_weight = s.at<bf16>(kCopiesBf16 + 143360);                             // [131072, 2048]
  bf16* logits = s.at<bf16>(kTransients);                                            // [8192, 131072]
  int* targets = s.at<int>(kTargets + chunk * 32768);                                // [32768]
  StepScalars* scalars = s.at<StepScalars>(kScalars);                                // [1]
  float* losses = s.at<float>(kLosses + chunk * 32768);                              // [32768]
  float* logits_lse = s.at<float>(kTransients + 2416050176 + chunk * 32768);         // [32768]
  float* entropies = s.at<float>(kTransients + 2416181248 + chunk * 32768);          // [32768]
  float* correct = s.at<float>(kTransients + 2416312320 + chunk * 32768);            // [32768]
  bf16* d_final_norm_out = s.at<bf16>(kTransients + 2281701376 + chunk * 33554432);  // [32768, 2048]
  float* d_embed_weight = s.at<float>(kGradients + 286720);                          // [131072, 2048]

  const Range range(s.stream, "loss_chunk");
  s.lm_head_forward(s.stream, {.a = final_norm_out, .b = embed_weight, .d = logits});
  launch(s.stream, Grid{8192, 512, 8}, cross_entropy_gradient, logits, targets, losses, logits_lse, entropies, correct,
         scalars);
  s.lm_head_dgrad(s.stream, {.a = logits, .b = embed_weight, .d = d_final_norm_out});
  s.lm_head_wgrad(s.stream, {.a = logits, .b = final_norm_out, .d = d_embed_weight, .accumulate = !first || chunk > 0});
}

void head_backward(Step& s, bool first) {
  float* losses = s.at<float>(kLosses);                            // [32768]
  float* logits_lse = s.at<float>(kTransients + 2416050176);       // [32768]
  float* entropies = s.at<float>(kTransients + 2416181248);        // [32768]
  float* correct = s.at<float>(kTransients + 2416312320);          // [32768]
  StepScalars* scalars = s.at<StepScalars>(kScalars);              // [1]
  StepResults* results = s.at<StepResults>(kResults);              // [1]
  bf16* d_final_norm_out = s.at<bf16>(kTransients + 2281701376);   // [32768, 2048]
  float* x_last = s.at<float>(kStream + 16 * kStreamStride);       // [32768, 2048]
  float* final_norm_weight = s.at<float>(kMasters + 262144);       // [2048]
  float* final_norm_rstd = s.at<float>(kTransients + 2415919104);  // [32768]
  bf16* d_x_last = s.at<bf16>(kTransients + 2147483648);           // [32768, 2048]
  float* final_norm_backward_partial = s.at<float>(kTransients);   // [1024, 2048]
  float* final_norm_backward_folded = s.at<float>(kTransients);    // [32, 2048], over final_norm_backward_partial
  float* d_final_norm_weight = s.at<float>(kGradients + 262144);   // [2048]

  const Range range(s.stream, "head_backward");
  launch(s.stream, Grid{1, 1024}, loss_sum, losses, logits_lse, entropies, correct, scalars, results, !first);
  launch(s.stream, Grid{1024, 256}, rms_norm_backward, d_final_norm_out, x_last, final_norm_weight, final_norm_rstd,
         nullptr, d_x_last, final_norm_backward_partial, nullptr);
  launch(s.stream, Grid{128, 128}, column_reduce_to_32_2048, final_norm_backward_partial, final_norm_backward_folded,
         false);
  launch(s.stream, Grid{4, 128}, column_reduce_2048, final_norm_backward_folded, d_final_norm_weight, !first);
}

void layer_backward(Step& s, bool first, std::size_t layer) {
  bf16* d_x_next = s.at<bf16>(kTransients + 2147483648);                                      // [32768, 2048]
  bf16* down_weight = s.at<bf16>(kCopiesBf16 + 2 * (312551424 + layer * kLayerMatrices));     // [2048, 8192]
  bf16* d_swiglu_out = s.at<bf16>(kTransients + 1610612736);                                  // [32768, 8192]
  bf16* gate_up_out = s.at<bf16>(kKept + 608436224 + layer * kKeptStride);                    // [32768, 16384]
  bf16* d_gate_up_out = s.at<bf16>(kTransients);                                              // [32768, 16384]
  bf16* swiglu_out = s.at<bf16>(kTransients + 1073741824);                                    // [32768, 8192]
  float* d_down_weight = s.at<float>(kGradients + 4 * (312551424 + layer * kLayerMatrices));  // [2048, 8192]
  bf16* gate_up_weight = s.at<bf16>(kCopiesBf16 + 2 * (278996992 + layer * kLayerMatrices));  // [16384, 2048]
  bf16* d_mlp_norm_out = s.at<bf16>(kTransients + 1207959552);                                // [32768, 2048]
  float* x_mid = s.at<float>(kKept + 339869696 + layer * kKeptStride);                        // [32768, 2048]
  float* mlp_norm_weight = s.at<float>(kMasters + 4 * (2048 + layer * kLayerVectors));        // [2048]
  float* mlp_norm_rstd = s.at<float>(kKept + 608305152 + layer * kKeptStride);                // [32768]
  bf16* d_x_mid = s.at<bf16>(kTransients + 2147483648);                      // [32768, 2048], over d_x_next
  float* mlp_norm_backward_partial = s.at<float>(kTransients + 1342177280);  // [1024, 2048]
  bf16* mlp_norm_out = s.at<bf16>(kTransients + 1073741824);                 // [32768, 2048]
  float* mlp_norm_backward_folded =
      s.at<float>(kTransients + 1342177280);  // [32, 2048], over mlp_norm_backward_partial
  float* d_mlp_norm_weight = s.at<float>(kGradients + 4 * (2048 + layer * kLayerVectors));       // [2048]
  float* d_gate_up_weight = s.at<float>(kGradients + 4 * (278996992 + layer * kLayerMatrices));  // [16384, 2048]
  bf16* attention_out = s.at<bf16>(kKept + 201457664 + layer * kKeptStride);                     // [32768, 2048]
  float* d_o_weight = s.at<float>(kGradients + 4 * (274802688 + layer * kLayerMatrices));        // [2048, 2048]
  bf16* o_weight = s.at<bf16>(kCopiesBf16 + 2 * (274802688 + layer * kLayerMatrices));           // [2048, 2048]
  bf16* d_attention_out = s.at<bf16>(kTransients + 1344274432);                                  // [32768, 2048]
  bf16* qkv = s.at<bf16>(kKept + 131072 + layer * kKeptStride);                           // [32768, 3072], over qkv_raw
  float* attention_lse = s.at<float>(kKept + 335675392 + layer * kKeptStride);            // [512, 2048]
  float* rope_table = s.at<float>(kRopeTable);                                            // [2048, 64]
  bf16* d_qkv_raw = s.at<bf16>(kTransients + 1142947840);                                 // [32768, 3072]
  float* attention_workspace = s.at<float>(kTransients);                                  // [285736960]
  bf16* qkv_weight = s.at<bf16>(kCopiesBf16 + 2 * (268511232 + layer * kLayerMatrices));  // [3072, 2048]
  bf16* d_attention_norm_out = s.at<bf16>(kTransients + 134217728);                       // [32768, 2048]
  float* x = s.at<float>(kStream + layer * kStreamStride);                                // [32768, 2048]
  float* attention_norm_weight = s.at<float>(kMasters + 4 * layer * kLayerVectors);       // [2048]
  float* attention_norm_rstd = s.at<float>(kKept + layer * kKeptStride);                  // [32768]
  bf16* d_x = s.at<bf16>(kTransients + 2147483648);                               // [32768, 2048], over d_x_next
  float* attention_norm_backward_partial = s.at<float>(kTransients + 268435456);  // [1024, 2048]
  bf16* attention_norm_out = s.at<bf16>(kTransients);                             // [32768, 2048]
  float* attention_norm_backward_folded =
      s.at<float>(kTransients + 268435456);  // [32, 2048], over attention_norm_backward_partial
  float* d_attention_norm_weight = s.at<float>(kGradients + 4 * layer * kLayerVectors);      // [2048]
  float* d_qkv_weight = s.at<float>(kGradients + 4 * (268511232 + layer * kLayerMatrices));  // [3072, 2048]

  const Range range(s.stream, "layer_backward");
  s.down_dgrad(s.stream, {.a = d_x_next, .b = down_weight, .d = d_swiglu_out});
  launch(s.stream, Grid{32768, 256}, swiglu_backward_recompute, d_swiglu_out, gate_up_out, d_gate_up_out, swiglu_out);
  s.down_wgrad(s.stream, {.a = d_x_next, .b = swiglu_out, .d = d_down_weight, .accumulate = !first});
  s.gate_up_dgrad(s.stream, {.a = d_gate_up_out, .b = gate_up_weight, .d = d_mlp_norm_out});
  launch(s.stream, Grid{1024, 256}, rms_norm_backward_residual_recompute, d_mlp_norm_out, x_mid, mlp_norm_weight,
         mlp_norm_rstd, d_x_next, d_x_mid, mlp_norm_backward_partial, mlp_norm_out);
  launch(s.stream, Grid{128, 128}, column_reduce_to_32_2048, mlp_norm_backward_partial, mlp_norm_backward_folded,
         false);
  launch(s.stream, Grid{4, 128}, column_reduce_2048, mlp_norm_backward_folded, d_mlp_norm_weight, !first);
  s.gate_up_wgrad(s.stream, {.a = d_gate_up_out, .b = mlp_norm_out, .d = d_gate_up_weight, .accumulate = !first});
  s.o_wgrad(s.stream, {.a = d_x_mid, .b = attention_out, .d = d_o_weight, .accumulate = !first});
  s.o_dgrad(s.stream, {.a = d_x_mid, .b = o_weight, .d = d_attention_out});
  s.attention.backward(s.stream, d_attention_out, attention_out, qkv, attention_lse, d_qkv_raw, attention_workspace,
                       rope_table);
  s.qkv_dgrad(s.stream, {.a = d_qkv_raw, .b = qkv_weight, .d = d_attention_norm_out});
  launch(s.stream, Grid{1024, 256}, rms_norm_backward_residual_recompute, d_attention_norm_out, x,
         attention_norm_weight, attention_norm_rstd, d_x_mid, d_x, attention_norm_backward_partial, attention_norm_out);
  launch(s.stream, Grid{128, 128}, column_reduce_to_32_2048, attention_norm_backward_partial,
         attention_norm_backward_folded, false);
  launch(s.stream, Grid{4, 128}, column_reduce_2048, attention_norm_backward_folded, d_attention_norm_weight, !first);
  s.qkv_wgrad(s.stream, {.a = d_qkv_raw, .b = attention_norm_out, .d = d_qkv_weight, .accumulate = !first});
}

void embed_backward(Step& s) {
  bf16* d_x_first = s.at<bf16>(kTransients + 2147483648);    // [32768, 2048]
  int* embedding_order = s.at<int>(kEmbeddingOrder);         // [32768]
  int* run_begin = s.at<int>(kRunBegin);                     // [32769]
  int* run_token = s.at<int>(kRunToken);                     // [32768]
  int* run_count = s.at<int>(kRunCount);                     // [1]
  float* d_embed_weight = s.at<float>(kGradients + 286720);  // [131072, 2048]

  const Range range(s.stream, "embed_backward");
  launch(s.stream, Grid{32768, 128}, embedding_backward, d_x_first, embedding_order, run_begin, run_token, run_count,
         d_embed_weight);
}

void optimizer(Step& s) {
  float* gradients = s.at<float>(kGradients);                       // [1241655296]
  Chunk* chunks = s.at<Chunk>(kChunks);                             // [75809]
  float* gradient_partial = s.at<float>(kTransients);               // [75809]
  StepResults* results = s.at<StepResults>(kResults);               // [1]
  StepScalars* scalars = s.at<StepScalars>(kScalars);               // [1]
  float* masters = s.at<float>(kMasters);                           // [1241655296]
  AdamwScalars* adamw_scalars = s.at<AdamwScalars>(kAdamwScalars);  // [4]
  GroupScalars* group_scalars = s.at<GroupScalars>(kGroupScalars);  // [4]
  float* exp_avg = s.at<float>(s.places[kExpAvg]);                  // [1241655296]
  float* exp_avg_sq = s.at<float>(s.places[kExpAvgSq]);             // [1241655296]
  bf16* copies_bf16 = s.at<bf16>(kCopiesBf16);                      // [1241655296]
  float* weight_partial = s.at<float>(kTransients + 303360);        // [75809]
  float* update_partial = s.at<float>(kTransients + 606720);        // [75809]
  int* first_chunk = s.at<int>(kFirstChunk);                        // [147]
  float* tensor_norms = s.at<float>(kTensorNorms);                  // [146, 3]

  const Range range(s.stream, "optimizer");
  launch(s.stream, Grid{75809, 256}, gradient_norm, gradients, chunks, gradient_partial, 0, kChunkCount);
  s.ranks.all_reduce_sum(gradient_partial, 75809, s.stream);
  s.ranks.all_reduce_sum(&results->loss, 5, s.stream);
  s.ranks.all_reduce_max(&results->lse_max, 1, s.stream);
  launch(s.stream, Grid{1, 1024}, gradient_clip, gradient_partial, kChunkCount, scalars, results);
  launch(s.stream, Grid{75809, 256}, adamw_copy_norms, masters, gradients, exp_avg, exp_avg_sq, copies_bf16, chunks, 0,
         kChunkCount, adamw_scalars, group_scalars, results, weight_partial, update_partial);
  s.ranks.all_reduce_sum(weight_partial, 75809, s.stream);
  s.ranks.all_reduce_sum(update_partial, 75809, s.stream);
  launch(s.stream, Grid{37, 128}, parameter_norms, gradient_partial, weight_partial, update_partial, first_chunk,
         tensor_norms);
}

void evaluate_chunk(Step& s, std::size_t chunk) {
  bf16* final_norm_out = s.at<bf16>(kTransients + 2147483648 + chunk * 33554432);  // [32768, 2048]
  bf16* embed_weight = s.at<bf16>(kCopiesBf16 + 143360);                           // [131072, 2048]
  bf16* logits = s.at<bf16>(kTransients);                                          // [8192, 131072]
  int* targets = s.at<int>(kTargets + chunk * 32768);                              // [32768]
  StepScalars* scalars = s.at<StepScalars>(kScalars);                              // [1]
  float* losses = s.at<float>(kLosses + chunk * 32768);                            // [32768]
  float* logits_lse = s.at<float>(kTransients + 2416050176 + chunk * 32768);       // [32768]
  float* entropies = s.at<float>(kTransients + 2416181248 + chunk * 32768);        // [32768]
  float* correct = s.at<float>(kTransients + 2416312320 + chunk * 32768);          // [32768]

  const Range range(s.stream, "evaluate_chunk");
  s.lm_head_forward(s.stream, {.a = final_norm_out, .b = embed_weight, .d = logits});
  launch(s.stream, Grid{8192, 512, 8}, cross_entropy, logits, targets, losses, logits_lse, entropies, correct, scalars);
}

void evaluate_sum(Step& s, bool first) {
  float* losses = s.at<float>(kLosses);                       // [32768]
  float* logits_lse = s.at<float>(kTransients + 2416050176);  // [32768]
  float* entropies = s.at<float>(kTransients + 2416181248);   // [32768]
  float* correct = s.at<float>(kTransients + 2416312320);     // [32768]
  StepScalars* scalars = s.at<StepScalars>(kScalars);         // [1]
  StepResults* results = s.at<StepResults>(kResults);         // [1]

  const Range range(s.stream, "evaluate_sum");
  launch(s.stream, Grid{1, 1024}, loss_sum, losses, logits_lse, entropies, correct, scalars, results, !first);
}

void sample(Step& s) {
  bf16* final_norm_out = s.at<bf16>(kTransients + 2147483648);  // [32768, 2048]
  int* positions = s.at<int>(kPositions);                       // [16]
  bf16* sample_rows = s.at<bf16>(kTransients + 2281701376);     // [16, 2048]
  bf16* embed_weight = s.at<bf16>(kCopiesBf16 + 143360);        // [131072, 2048]
  float* sample_logits = s.at<float>(kSampleLogits);            // [16, 131072]

  const Range range(s.stream, "sample");
  launch(s.stream, Grid{8, 128}, gather_rows, final_norm_out, positions, sample_rows);
  s.sample_logits_forward(s.stream, {.a = sample_rows, .b = embed_weight, .d = sample_logits});
}

void reduce_layer(Step& s, std::size_t layer) {
  float* layer_gradients = s.at<float>(kGradients + 4 * (268511232 + layer * kLayerMatrices));  // [60817408]

  const Range range(s.stream, "reduce_layer");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.reduce_scatter_sum(layer_gradients, share_of(60817408, s.ranks.world_size()), beside);
}

void reduce_embed(Step& s) {
  float* embed_gradients = s.at<float>(kGradients + 286720);  // [268435456]

  const Range range(s.stream, "reduce_embed");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.reduce_scatter_sum(embed_gradients, share_of(268435456, s.ranks.world_size()), beside);
}

void reduce_vectors(Step& s) {
  float* vectors_gradients = s.at<float>(kGradients);  // [67584]

  const Range range(s.stream, "reduce_vectors");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.reduce_scatter_sum(vectors_gradients, share_of(67584, s.ranks.world_size()), beside);
}

void gather_vectors(Step& s) {
  float* vectors_weights = s.at<float>(kMasters);  // [67584]

  const Range range(s.stream, "gather_vectors");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.all_gather(vectors_weights, 4 * share_of(67584, s.ranks.world_size()), beside);
  s.ranks.mark(kVectorsGathered);
}

void gather_embed(Step& s) {
  float* embed_weights = s.at<float>(kMasters + 286720);       // [268435456]
  bf16* embed_copies_bf16 = s.at<bf16>(kCopiesBf16 + 143360);  // [268435456]

  const Range range(s.stream, "gather_embed");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.all_gather(embed_weights, 4 * share_of(268435456, s.ranks.world_size()), beside);
  s.ranks.all_gather(embed_copies_bf16, 2 * share_of(268435456, s.ranks.world_size()), beside);
  s.ranks.mark(kEmbedGathered);
}

void gather_layer(Step& s, std::size_t layer) {
  bf16* layer_copies_bf16 = s.at<bf16>(kCopiesBf16 + 2 * (268511232 + layer * kLayerMatrices));  // [60817408]

  const Range range(s.stream, "gather_layer");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.all_gather(layer_copies_bf16, 2 * share_of(60817408, s.ranks.world_size()), beside);
  s.ranks.mark(kLayerGathered + layer % 2);
}

void forward(Step& s, bool gather) {
  if (gather) {
    gather_vectors(s);
    gather_embed(s);
    gather_layer(s, 0);
    s.ranks.wait(kVectorsGathered, s.stream);
    s.ranks.wait(kEmbedGathered, s.stream);
  }
  embed(s);
  for (std::size_t layer = 0; layer < 16; ++layer) {
    if (gather) {
      if (layer + 1 < 16) {
        gather_layer(s, layer + 1);
      }
      s.ranks.wait(kLayerGathered + layer % 2, s.stream);
    }
    layer_forward(s, layer);
  }
  head(s);
}

}  // namespace

void own_attention_backward(Stream& stream, const bf16* dout, const bf16* out, const bf16* qkv, const float* lse,
                            bf16* dqkv, float* delta, const float* rope_table) {
  launch(stream, Grid{16384, 128, 1, 32768}, attention_backward_queries_warpgroups_rotated, dout, out, qkv, lse, dqkv,
         delta, rope_table);
  launch(stream, Grid{4096, 128, 1, 33792}, attention_backward_keys_warpgroups_rotated, dout, qkv, lse, delta, dqkv,
         rope_table);
}

void rotate_gradients_back(Stream& stream, bf16* dqkv, const float* rope_table) {
  launch(stream, Grid{32768, 128}, rope_inverse, dqkv, rope_table);
}

Step* create_step(Device& device, Communicator& ranks, const Shares& shares, std::byte* arena,
                  std::span<const std::size_t> places) {
  require_arch("90a");
  return new Step(device, ranks, shares, arena, places);
}

void destroy_step(Step* step) { delete step; }

void initialise(Step& s, std::uint64_t seed) {
  InitRule* init_rules = s.at<InitRule>(kInitRules);  // [146]
  Chunk* chunks = s.at<Chunk>(kChunks);               // [75809]
  float* masters = s.at<float>(kMasters);             // [1241655296]

  launch(s.stream, Grid{75809, 256}, init_normal, masters, init_rules, chunks, 0, kChunkCount, seed);
}

void refresh_copies(Step& s) {
  float* masters = s.at<float>(kMasters);       // [1241655296]
  Chunk* chunks = s.at<Chunk>(kChunks);         // [75809]
  bf16* copies_bf16 = s.at<bf16>(kCopiesBf16);  // [1241655296]

  launch(s.stream, Grid{75809, 256}, cast_weights, masters, copies_bf16, chunks, 0, kChunkCount);
}

void gather_weights(Step& s) {
  gather_vectors(s);
  gather_embed(s);
  for (std::size_t layer = 0; layer < 16; ++layer) {
    gather_layer(s, layer);
  }
  s.ranks.join(s.stream);
}

void micro_batch(Step& s, bool first, bool last) {
  forward(s, first);
  for (std::size_t chunk = 0; chunk < 4; ++chunk) {
    loss_chunk(s, first, chunk);
  }
  head_backward(s, first);
  for (std::size_t layer = 16; layer-- > 0;) {
    layer_backward(s, first, layer);
    if (last) reduce_layer(s, layer);
  }
  embed_backward(s);
  if (last) reduce_embed(s);
  if (last) reduce_vectors(s);
  if (last) s.ranks.join(s.stream);
}

void optimizer_step(Step& s) { optimizer(s); }

void evaluate(Step& s, bool first) {
  forward(s, false);
  for (std::size_t chunk = 0; chunk < 4; ++chunk) {
    evaluate_chunk(s, chunk);
  }
  evaluate_sum(s, first);
}

void next_logits(Step& s) {
  forward(s, false);
  sample(s);
}

}  // namespace llmc

#include "step_pieces.h"
