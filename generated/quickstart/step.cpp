// The training step of quickstart: ops in order, at their offsets in the arena.
// Made by llmc from spec 274398525d62afeedc289c02dc9a8bde; change the spec, not this file.
//
// A micro-batch is 8 sequences of 256 tokens. Activations are written with =; gradients of parameters with = by
// the first micro-batch of a step and with += by the later ones.

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/collectives.h"
#include "device/launch.h"
#include "device/range.h"
#include "device/cpu/instructions.h"
#include "kernels.h"
#include "math/gemm.h"
#include "program/shards.h"
#include "step.h"

namespace llmc {

const std::uint64_t kInstructions = kInstructionsOfSource;

namespace {

// Byte offsets in the arena of 334746624 bytes, and byte strides from one layer to the next.
constexpr std::size_t kMasters = 0;
constexpr std::size_t kGradients = 23213056;
constexpr std::size_t kScalars = 46426112;
constexpr std::size_t kTokens = 46426368;
constexpr std::size_t kTargets = 46434560;
constexpr std::size_t kEmbeddingOrder = 46442752;
constexpr std::size_t kRunBegin = 46450944;
constexpr std::size_t kRunToken = 46459392;
constexpr std::size_t kRunCount = 46467584;
constexpr std::size_t kAdamwScalars = 46467840;
constexpr std::size_t kGroupScalars = 46468096;
constexpr std::size_t kPositions = 46468352;
constexpr std::size_t kChunks = 46468608;
constexpr std::size_t kRopeTable = 46480384;
constexpr std::size_t kResults = 46513152;
constexpr std::size_t kLosses = 46513408;
constexpr std::size_t kFirstChunk = 46521600;
constexpr std::size_t kTensorNorms = 46521856;
constexpr std::size_t kSampleLogits = 46522624;
constexpr std::size_t kInitRules = 46653696;
constexpr std::size_t kStream = 46656512;
constexpr std::size_t kStreamStride = 2097152;
constexpr std::size_t kKept = 61336576;
constexpr std::size_t kKeptStride = 31539200;
constexpr std::size_t kTransients = 250571776;

// Indices into Step::places of offsets that depend on the number of ranks.
constexpr std::size_t kExpAvg = 0;
constexpr std::size_t kExpAvgSq = 1;

constexpr std::size_t kLayerMatrices = 790528;  // elements from a layer's matrices to the next layer's
constexpr std::size_t kLayerVectors = 512;      // the same for its vectors
constexpr int kChunkCount = 365;                // of at most 16384 elements: the optimizer's units of work

}  // namespace

struct Step {
  Device& device;
  Stream& stream;
  Communicator& ranks;
  const Shares& shares;
  std::byte* arena;
  std::span<const std::size_t> places;  // offsets in the arena that depend on the number of ranks
  MathLibrary math;
  Gemm qkv_forward;            // [2048, 256] x [512, 256]^T -> [2048, 512] fp32
  Gemm o_forward;              // [2048, 256] x [256, 256]^T -> [2048, 256] fp32 + residual
  Gemm gate_up_forward;        // [2048, 256] x [1536, 256]^T -> [2048, 1536] fp32
  Gemm down_forward;           // [2048, 768] x [256, 768]^T -> [2048, 256] fp32 + residual
  Gemm lm_head_forward;        // [2048, 256] x [4096, 256]^T -> [2048, 4096] fp32
  Gemm lm_head_dgrad;          // [2048, 4096] x [4096, 256] -> [2048, 256] fp32
  Gemm lm_head_wgrad;          // [2048, 4096]^T x [2048, 256] -> [4096, 256] fp32, accumulates
  Gemm down_wgrad;             // [2048, 256]^T x [2048, 768] -> [256, 768] fp32, accumulates
  Gemm down_dgrad;             // [2048, 256] x [256, 768] -> [2048, 768] fp32
  Gemm gate_up_wgrad;          // [2048, 1536]^T x [2048, 256] -> [1536, 256] fp32, accumulates
  Gemm gate_up_dgrad;          // [2048, 1536] x [1536, 256] -> [2048, 256] fp32
  Gemm o_wgrad;                // [2048, 256]^T x [2048, 256] -> [256, 256] fp32, accumulates
  Gemm o_dgrad;                // [2048, 256] x [256, 256] -> [2048, 256] fp32
  Gemm qkv_wgrad;              // [2048, 512]^T x [2048, 256] -> [512, 256] fp32, accumulates
  Gemm qkv_dgrad;              // [2048, 512] x [512, 256] -> [2048, 256] fp32
  Gemm sample_logits_forward;  // [8, 256] x [4096, 256]^T -> [8, 4096] fp32

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
      math(d, nullptr, 0),
      qkv_forward(math, kQkvForward),
      o_forward(math, kOForward),
      gate_up_forward(math, kGateUpForward),
      down_forward(math, kDownForward),
      lm_head_forward(math, kLmHeadForward),
      lm_head_dgrad(math, kLmHeadDgrad),
      lm_head_wgrad(math, kLmHeadWgrad),
      down_wgrad(math, kDownWgrad),
      down_dgrad(math, kDownDgrad),
      gate_up_wgrad(math, kGateUpWgrad),
      gate_up_dgrad(math, kGateUpDgrad),
      o_wgrad(math, kOWgrad),
      o_dgrad(math, kODgrad),
      qkv_wgrad(math, kQkvWgrad),
      qkv_dgrad(math, kQkvDgrad),
      sample_logits_forward(math, kSampleLogitsForward) {}

namespace {

// Events on the ranks' stream that the passes wait for; layers alternate between two.
constexpr int kVectorsGathered = 0;
constexpr int kEmbedGathered = 1;
constexpr int kLayerGathered = 2;

void embed(Step& s) {
  int* tokens = s.at<int>(kTokens);                     // [2048]
  float* embed_weight = s.at<float>(kMasters + 29696);  // [4096, 256]
  float* x_first = s.at<float>(kStream);                // [2048, 256]

  const Range range(s.stream, "embed");
  launch(s.stream, embedding_forward, tokens, embed_weight, x_first);
}

void layer_forward(Step& s, std::size_t layer) {
  float* x = s.at<float>(kStream + layer * kStreamStride);                                 // [2048, 256]
  float* attention_norm_weight = s.at<float>(kMasters + 4 * layer * kLayerVectors);        // [256]
  float* attention_norm_out = s.at<float>(kKept + layer * kKeptStride);                    // [2048, 256]
  float* attention_norm_rstd = s.at<float>(kKept + 2097152 + layer * kKeptStride);         // [2048]
  float* qkv_weight = s.at<float>(kMasters + 4 * (1060096 + layer * kLayerMatrices));      // [512, 256]
  float* qkv_raw = s.at<float>(kKept + 2105344 + layer * kKeptStride);                     // [2048, 512]
  float* rope_table = s.at<float>(kRopeTable);                                             // [256, 32]
  float* qkv = s.at<float>(kKept + 2105344 + layer * kKeptStride);                         // [2048, 512], over qkv_raw
  float* attention_out = s.at<float>(kKept + 6299648 + layer * kKeptStride);               // [2048, 256]
  float* attention_lse = s.at<float>(kKept + 8396800 + layer * kKeptStride);               // [64, 256]
  float* o_weight = s.at<float>(kMasters + 4 * (1191168 + layer * kLayerMatrices));        // [256, 256]
  float* x_mid = s.at<float>(kKept + 8462336 + layer * kKeptStride);                       // [2048, 256]
  float* mlp_norm_weight = s.at<float>(kMasters + 4 * (256 + layer * kLayerVectors));      // [256]
  float* mlp_norm_out = s.at<float>(kKept + 10559488 + layer * kKeptStride);               // [2048, 256]
  float* mlp_norm_rstd = s.at<float>(kKept + 12656640 + layer * kKeptStride);              // [2048]
  float* gate_up_weight = s.at<float>(kMasters + 4 * (1256704 + layer * kLayerMatrices));  // [1536, 256]
  float* gate_up_out = s.at<float>(kKept + 12664832 + layer * kKeptStride);                // [2048, 1536]
  float* swiglu_out = s.at<float>(kKept + 25247744 + layer * kKeptStride);                 // [2048, 768]
  float* down_weight = s.at<float>(kMasters + 4 * (1649920 + layer * kLayerMatrices));     // [256, 768]
  float* x_next = s.at<float>(kStream + (layer + 1) * kStreamStride);                      // [2048, 256]

  const Range range(s.stream, "layer_forward");
  launch(s.stream, rms_norm_forward, x, attention_norm_weight, attention_norm_out, attention_norm_rstd);
  s.qkv_forward(s.stream, {.a = attention_norm_out, .b = qkv_weight, .d = qkv_raw});
  launch(s.stream, rope, qkv_raw, rope_table);
  launch(s.stream, attention_forward, qkv, attention_out, attention_lse);
  s.o_forward(s.stream, {.a = attention_out, .b = o_weight, .c = x, .d = x_mid});
  launch(s.stream, rms_norm_forward, x_mid, mlp_norm_weight, mlp_norm_out, mlp_norm_rstd);
  s.gate_up_forward(s.stream, {.a = mlp_norm_out, .b = gate_up_weight, .d = gate_up_out});
  launch(s.stream, swiglu_forward, gate_up_out, swiglu_out);
  s.down_forward(s.stream, {.a = swiglu_out, .b = down_weight, .c = x_mid, .d = x_next});
}

void head(Step& s) {
  float* x_last = s.at<float>(kStream + 6 * kStreamStride);      // [2048, 256]
  float* final_norm_weight = s.at<float>(kMasters + 12288);      // [256]
  float* final_norm_out = s.at<float>(kTransients + 33554432);   // [2048, 256]
  float* final_norm_rstd = s.at<float>(kTransients + 37748736);  // [2048]

  const Range range(s.stream, "head");
  launch(s.stream, rms_norm_forward, x_last, final_norm_weight, final_norm_out, final_norm_rstd);
}

void loss_chunk(Step& s, bool first, std::size_t chunk) {
  float* final_norm_out = s.at<float>(kTransients + 33554432 + chunk * 2097152);    // [2048, 256]
  float* embed_weight = s.at<float>(kMasters + 29696);                              // [4096, 256]
  float* logits = s.at<float>(kTransients + chunk * 33554432);                      // [2048, 4096]
  int* targets = s.at<int>(kTargets + chunk * 8192);                                // [2048]
  StepScalars* scalars = s.at<StepScalars>(kScalars);                               // [1]
  float* losses = s.at<float>(kLosses + chunk * 8192);                              // [2048]
  float* logits_lse = s.at<float>(kTransients + 37756928 + chunk * 8192);           // [2048]
  float* entropies = s.at<float>(kTransients + 37765120 + chunk * 8192);            // [2048]
  float* correct = s.at<float>(kTransients + 37773312 + chunk * 8192);              // [2048]
  float* d_final_norm_out = s.at<float>(kTransients + 35651584 + chunk * 2097152);  // [2048, 256]
  float* d_embed_weight = s.at<float>(kGradients + 29696);                          // [4096, 256]

  const Range range(s.stream, "loss_chunk");
  s.lm_head_forward(s.stream, {.a = final_norm_out, .b = embed_weight, .d = logits});
  launch(s.stream, cross_entropy_gradient, logits, targets, losses, logits_lse, entropies, correct, scalars);
  s.lm_head_dgrad(s.stream, {.a = logits, .b = embed_weight, .d = d_final_norm_out});
  s.lm_head_wgrad(s.stream, {.a = logits, .b = final_norm_out, .d = d_embed_weight, .accumulate = !first || chunk > 0});
}

void head_backward(Step& s, bool first) {
  float* losses = s.at<float>(kLosses);                           // [2048]
  float* logits_lse = s.at<float>(kTransients + 37756928);        // [2048]
  float* entropies = s.at<float>(kTransients + 37765120);         // [2048]
  float* correct = s.at<float>(kTransients + 37773312);           // [2048]
  StepScalars* scalars = s.at<StepScalars>(kScalars);             // [1]
  StepResults* results = s.at<StepResults>(kResults);             // [1]
  float* d_final_norm_out = s.at<float>(kTransients + 35651584);  // [2048, 256]
  float* x_last = s.at<float>(kStream + 6 * kStreamStride);       // [2048, 256]
  float* final_norm_weight = s.at<float>(kMasters + 12288);       // [256]
  float* final_norm_rstd = s.at<float>(kTransients + 37748736);   // [2048]
  float* d_x_last = s.at<float>(kTransients + 18874368);          // [2048, 256]
  float* final_norm_backward_partial = s.at<float>(kTransients);  // [256, 256]
  float* final_norm_backward_folded = s.at<float>(kTransients);   // [32, 256], over final_norm_backward_partial
  float* d_final_norm_weight = s.at<float>(kGradients + 12288);   // [256]

  const Range range(s.stream, "head_backward");
  launch(s.stream, loss_sum, losses, logits_lse, entropies, correct, scalars, results, !first);
  launch(s.stream, rms_norm_backward, d_final_norm_out, x_last, final_norm_weight, final_norm_rstd, nullptr, d_x_last,
         final_norm_backward_partial, nullptr);
  launch(s.stream, column_reduce_to_32_256, final_norm_backward_partial, final_norm_backward_folded, false);
  launch(s.stream, column_reduce_256, final_norm_backward_folded, d_final_norm_weight, !first);
}

void layer_backward(Step& s, bool first, std::size_t layer) {
  float* d_x_next = s.at<float>(kTransients + 18874368);                                       // [2048, 256]
  float* swiglu_out = s.at<float>(kKept + 25247744 + layer * kKeptStride);                     // [2048, 768]
  float* d_down_weight = s.at<float>(kGradients + 4 * (1649920 + layer * kLayerMatrices));     // [256, 768]
  float* down_weight = s.at<float>(kMasters + 4 * (1649920 + layer * kLayerMatrices));         // [256, 768]
  float* d_swiglu_out = s.at<float>(kTransients + 12582912);                                   // [2048, 768]
  float* gate_up_out = s.at<float>(kKept + 12664832 + layer * kKeptStride);                    // [2048, 1536]
  float* d_gate_up_out = s.at<float>(kTransients);                                             // [2048, 1536]
  float* mlp_norm_out = s.at<float>(kKept + 10559488 + layer * kKeptStride);                   // [2048, 256]
  float* d_gate_up_weight = s.at<float>(kGradients + 4 * (1256704 + layer * kLayerMatrices));  // [1536, 256]
  float* gate_up_weight = s.at<float>(kMasters + 4 * (1256704 + layer * kLayerMatrices));      // [1536, 256]
  float* d_mlp_norm_out = s.at<float>(kTransients + 12582912);                                 // [2048, 256]
  float* x_mid = s.at<float>(kKept + 8462336 + layer * kKeptStride);                           // [2048, 256]
  float* mlp_norm_weight = s.at<float>(kMasters + 4 * (256 + layer * kLayerVectors));          // [256]
  float* mlp_norm_rstd = s.at<float>(kKept + 12656640 + layer * kKeptStride);                  // [2048]
  float* d_x_mid = s.at<float>(kTransients + 18874368);         // [2048, 256], over d_x_next
  float* mlp_norm_backward_partial = s.at<float>(kTransients);  // [256, 256]
  float* mlp_norm_backward_folded = s.at<float>(kTransients);   // [32, 256], over mlp_norm_backward_partial
  float* d_mlp_norm_weight = s.at<float>(kGradients + 4 * (256 + layer * kLayerVectors));  // [256]
  float* attention_out = s.at<float>(kKept + 6299648 + layer * kKeptStride);               // [2048, 256]
  float* d_o_weight = s.at<float>(kGradients + 4 * (1191168 + layer * kLayerMatrices));    // [256, 256]
  float* o_weight = s.at<float>(kMasters + 4 * (1191168 + layer * kLayerMatrices));        // [256, 256]
  float* d_attention_out = s.at<float>(kTransients + 4194304);                             // [2048, 256]
  float* qkv = s.at<float>(kKept + 2105344 + layer * kKeptStride);                         // [2048, 512], over qkv_raw
  float* attention_lse = s.at<float>(kKept + 8396800 + layer * kKeptStride);               // [64, 256]
  float* d_qkv = s.at<float>(kTransients);                                                 // [2048, 512]
  float* attention_workspace = s.at<float>(kTransients + 6291456);                         // [16384, 32]
  float* rope_table = s.at<float>(kRopeTable);                                             // [256, 32]
  float* d_qkv_raw = s.at<float>(kTransients);                                             // [2048, 512], over d_qkv
  float* attention_norm_out = s.at<float>(kKept + layer * kKeptStride);                    // [2048, 256]
  float* d_qkv_weight = s.at<float>(kGradients + 4 * (1060096 + layer * kLayerMatrices));  // [512, 256]
  float* qkv_weight = s.at<float>(kMasters + 4 * (1060096 + layer * kLayerMatrices));      // [512, 256]
  float* d_attention_norm_out = s.at<float>(kTransients + 4194304);                        // [2048, 256]
  float* x = s.at<float>(kStream + layer * kStreamStride);                                 // [2048, 256]
  float* attention_norm_weight = s.at<float>(kMasters + 4 * layer * kLayerVectors);        // [256]
  float* attention_norm_rstd = s.at<float>(kKept + 2097152 + layer * kKeptStride);         // [2048]
  float* d_x = s.at<float>(kTransients + 18874368);                                        // [2048, 256], over d_x_next
  float* attention_norm_backward_partial = s.at<float>(kTransients);                       // [256, 256]
  float* attention_norm_backward_folded = s.at<float>(kTransients);  // [32, 256], over attention_norm_backward_partial
  float* d_attention_norm_weight = s.at<float>(kGradients + 4 * layer * kLayerVectors);  // [256]

  const Range range(s.stream, "layer_backward");
  s.down_wgrad(s.stream, {.a = d_x_next, .b = swiglu_out, .d = d_down_weight, .accumulate = !first});
  s.down_dgrad(s.stream, {.a = d_x_next, .b = down_weight, .d = d_swiglu_out});
  launch(s.stream, swiglu_backward, d_swiglu_out, gate_up_out, d_gate_up_out, nullptr);
  s.gate_up_wgrad(s.stream, {.a = d_gate_up_out, .b = mlp_norm_out, .d = d_gate_up_weight, .accumulate = !first});
  s.gate_up_dgrad(s.stream, {.a = d_gate_up_out, .b = gate_up_weight, .d = d_mlp_norm_out});
  launch(s.stream, rms_norm_backward_residual, d_mlp_norm_out, x_mid, mlp_norm_weight, mlp_norm_rstd, d_x_next, d_x_mid,
         mlp_norm_backward_partial, nullptr);
  launch(s.stream, column_reduce_to_32_256, mlp_norm_backward_partial, mlp_norm_backward_folded, false);
  launch(s.stream, column_reduce_256, mlp_norm_backward_folded, d_mlp_norm_weight, !first);
  s.o_wgrad(s.stream, {.a = d_x_mid, .b = attention_out, .d = d_o_weight, .accumulate = !first});
  s.o_dgrad(s.stream, {.a = d_x_mid, .b = o_weight, .d = d_attention_out});
  launch(s.stream, attention_backward, d_attention_out, attention_out, qkv, attention_lse, d_qkv, attention_workspace);
  launch(s.stream, rope_inverse, d_qkv, rope_table);
  s.qkv_wgrad(s.stream, {.a = d_qkv_raw, .b = attention_norm_out, .d = d_qkv_weight, .accumulate = !first});
  s.qkv_dgrad(s.stream, {.a = d_qkv_raw, .b = qkv_weight, .d = d_attention_norm_out});
  launch(s.stream, rms_norm_backward_residual, d_attention_norm_out, x, attention_norm_weight, attention_norm_rstd,
         d_x_mid, d_x, attention_norm_backward_partial, nullptr);
  launch(s.stream, column_reduce_to_32_256, attention_norm_backward_partial, attention_norm_backward_folded, false);
  launch(s.stream, column_reduce_256, attention_norm_backward_folded, d_attention_norm_weight, !first);
}

void embed_backward(Step& s) {
  float* d_x_first = s.at<float>(kTransients + 18874368);   // [2048, 256]
  int* embedding_order = s.at<int>(kEmbeddingOrder);        // [2048]
  int* run_begin = s.at<int>(kRunBegin);                    // [2049]
  int* run_token = s.at<int>(kRunToken);                    // [2048]
  int* run_count = s.at<int>(kRunCount);                    // [1]
  float* d_embed_weight = s.at<float>(kGradients + 29696);  // [4096, 256]

  const Range range(s.stream, "embed_backward");
  launch(s.stream, embedding_backward, d_x_first, embedding_order, run_begin, run_token, run_count, d_embed_weight);
}

void optimizer(Step& s) {
  float* gradients = s.at<float>(kGradients);                       // [5803264]
  Chunk* chunks = s.at<Chunk>(kChunks);                             // [365]
  float* gradient_partial = s.at<float>(kTransients);               // [365]
  StepResults* results = s.at<StepResults>(kResults);               // [1]
  StepScalars* scalars = s.at<StepScalars>(kScalars);               // [1]
  float* masters = s.at<float>(kMasters);                           // [5803264]
  AdamwScalars* adamw_scalars = s.at<AdamwScalars>(kAdamwScalars);  // [4]
  GroupScalars* group_scalars = s.at<GroupScalars>(kGroupScalars);  // [4]
  float* exp_avg = s.at<float>(s.places[kExpAvg]);                  // [5803264]
  float* exp_avg_sq = s.at<float>(s.places[kExpAvgSq]);             // [5803264]
  float* weight_partial = s.at<float>(kTransients + 1536);          // [365]
  float* update_partial = s.at<float>(kTransients + 3072);          // [365]
  int* first_chunk = s.at<int>(kFirstChunk);                        // [57]
  float* tensor_norms = s.at<float>(kTensorNorms);                  // [56, 3]

  const Range range(s.stream, "optimizer");
  launch(s.stream, gradient_norm, gradients, chunks, gradient_partial, 0, kChunkCount);
  s.ranks.all_reduce_sum(gradient_partial, 365, s.stream);
  s.ranks.all_reduce_sum(&results->loss, 5, s.stream);
  s.ranks.all_reduce_max(&results->lse_max, 1, s.stream);
  launch(s.stream, gradient_clip, gradient_partial, kChunkCount, scalars, results);
  launch(s.stream, adamw_norms, masters, gradients, exp_avg, exp_avg_sq, nullptr, chunks, 0, kChunkCount, adamw_scalars,
         group_scalars, results, weight_partial, update_partial);
  s.ranks.all_reduce_sum(weight_partial, 365, s.stream);
  s.ranks.all_reduce_sum(update_partial, 365, s.stream);
  launch(s.stream, parameter_norms, gradient_partial, weight_partial, update_partial, first_chunk, tensor_norms);
}

void evaluate_chunk(Step& s, std::size_t chunk) {
  float* final_norm_out = s.at<float>(kTransients + 33554432 + chunk * 2097152);  // [2048, 256]
  float* embed_weight = s.at<float>(kMasters + 29696);                            // [4096, 256]
  float* logits = s.at<float>(kTransients + chunk * 33554432);                    // [2048, 4096]
  int* targets = s.at<int>(kTargets + chunk * 8192);                              // [2048]
  StepScalars* scalars = s.at<StepScalars>(kScalars);                             // [1]
  float* losses = s.at<float>(kLosses + chunk * 8192);                            // [2048]
  float* logits_lse = s.at<float>(kTransients + 37756928 + chunk * 8192);         // [2048]
  float* entropies = s.at<float>(kTransients + 37765120 + chunk * 8192);          // [2048]
  float* correct = s.at<float>(kTransients + 37773312 + chunk * 8192);            // [2048]

  const Range range(s.stream, "evaluate_chunk");
  s.lm_head_forward(s.stream, {.a = final_norm_out, .b = embed_weight, .d = logits});
  launch(s.stream, cross_entropy, logits, targets, losses, logits_lse, entropies, correct, scalars);
}

void evaluate_sum(Step& s, bool first) {
  float* losses = s.at<float>(kLosses);                     // [2048]
  float* logits_lse = s.at<float>(kTransients + 37756928);  // [2048]
  float* entropies = s.at<float>(kTransients + 37765120);   // [2048]
  float* correct = s.at<float>(kTransients + 37773312);     // [2048]
  StepScalars* scalars = s.at<StepScalars>(kScalars);       // [1]
  StepResults* results = s.at<StepResults>(kResults);       // [1]

  const Range range(s.stream, "evaluate_sum");
  launch(s.stream, loss_sum, losses, logits_lse, entropies, correct, scalars, results, !first);
}

void sample(Step& s) {
  float* final_norm_out = s.at<float>(kTransients + 33554432);  // [2048, 256]
  int* positions = s.at<int>(kPositions);                       // [8]
  float* sample_rows = s.at<float>(kTransients + 35651584);     // [8, 256]
  float* embed_weight = s.at<float>(kMasters + 29696);          // [4096, 256]
  float* sample_logits = s.at<float>(kSampleLogits);            // [8, 4096]

  const Range range(s.stream, "sample");
  launch(s.stream, gather_rows, final_norm_out, positions, sample_rows);
  s.sample_logits_forward(s.stream, {.a = sample_rows, .b = embed_weight, .d = sample_logits});
}

void reduce_layer(Step& s, std::size_t layer) {
  float* layer_gradients = s.at<float>(kGradients + 4 * (1060096 + layer * kLayerMatrices));  // [786432]

  const Range range(s.stream, "reduce_layer");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.reduce_scatter_sum(layer_gradients, share_of(786432, s.ranks.world_size()), beside);
}

void reduce_embed(Step& s) {
  float* embed_gradients = s.at<float>(kGradients + 29696);  // [1048576]

  const Range range(s.stream, "reduce_embed");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.reduce_scatter_sum(embed_gradients, share_of(1048576, s.ranks.world_size()), beside);
}

void reduce_vectors(Step& s) {
  float* vectors_gradients = s.at<float>(kGradients);  // [3328]

  const Range range(s.stream, "reduce_vectors");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.reduce_scatter_sum(vectors_gradients, share_of(3328, s.ranks.world_size()), beside);
}

void gather_vectors(Step& s) {
  float* vectors_weights = s.at<float>(kMasters);  // [3328]

  const Range range(s.stream, "gather_vectors");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.all_gather(vectors_weights, 4 * share_of(3328, s.ranks.world_size()), beside);
  s.ranks.mark(kVectorsGathered);
}

void gather_embed(Step& s) {
  float* embed_weights = s.at<float>(kMasters + 29696);  // [1048576]

  const Range range(s.stream, "gather_embed");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.all_gather(embed_weights, 4 * share_of(1048576, s.ranks.world_size()), beside);
  s.ranks.mark(kEmbedGathered);
}

void gather_layer(Step& s, std::size_t layer) {
  float* layer_weights = s.at<float>(kMasters + 4 * (1060096 + layer * kLayerMatrices));  // [786432]

  const Range range(s.stream, "gather_layer");
  Stream& beside = s.ranks.beside(s.stream);
  s.ranks.all_gather(layer_weights, 4 * share_of(786432, s.ranks.world_size()), beside);
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
  for (std::size_t layer = 0; layer < 6; ++layer) {
    if (gather) {
      if (layer + 1 < 6) {
        gather_layer(s, layer + 1);
      }
      s.ranks.wait(kLayerGathered + layer % 2, s.stream);
    }
    layer_forward(s, layer);
  }
  head(s);
}

}  // namespace

Step* create_step(Device& device, Communicator& ranks, const Shares& shares, std::byte* arena,
                  std::span<const std::size_t> places) {
  return new Step(device, ranks, shares, arena, places);
}

void destroy_step(Step* step) { delete step; }

void initialise(Step& s, std::uint64_t seed) {
  InitRule* init_rules = s.at<InitRule>(kInitRules);  // [56]
  Chunk* chunks = s.at<Chunk>(kChunks);               // [365]
  float* masters = s.at<float>(kMasters);             // [5803264]

  launch(s.stream, init_normal, masters, init_rules, chunks, 0, kChunkCount, seed);
}

/// Matrix products read the masters.
void refresh_copies(Step&) {}

void gather_weights(Step& s) {
  gather_vectors(s);
  gather_embed(s);
  for (std::size_t layer = 0; layer < 6; ++layer) {
    gather_layer(s, layer);
  }
  s.ranks.join(s.stream);
}

void micro_batch(Step& s, bool first, bool last) {
  forward(s, first);
  for (std::size_t chunk = 0; chunk < 1; ++chunk) {
    loss_chunk(s, first, chunk);
  }
  head_backward(s, first);
  for (std::size_t layer = 6; layer-- > 0;) {
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
  for (std::size_t chunk = 0; chunk < 1; ++chunk) {
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
