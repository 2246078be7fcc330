// The training step of llama-1b: what runs, in which order, on which bytes of the arena.
// Made by llmc from spec aaf5677d8652fd38f729fcaf140f8b13; change the spec, not this file.
//
// A micro-batch is 16 sequences of 2048 tokens. Activations are written with =; gradients of parameters with = by
// the first micro-batch of a step and with += by the later ones.

#include <cstddef>
#include <cstdint>

#include "device/launch.h"
#include "comm/collectives.h"
#include "device/cuda/arch.h"
#include "device/range.h"
#include "math/attention.h"
#include "kernels.h"
#include "math/gemm.h"
#include "step.h"

namespace llmc {

struct Step {
  Device& device;
  Stream& stream;
  std::byte* arena;
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
  Communicator ranks;

  Step(Device& device, std::byte* arena);

  /// The planned place `bytes` from the arena's start.
  template <class T>
  T* at(std::size_t bytes) const {
    return reinterpret_cast<T*>(arena + bytes);
  }
};

Step::Step(Device& d, std::byte* memory)
    : device(d),
      stream(d.stream()),
      arena(memory),
      math(d, memory + 12427214592, 67108864),
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
      attention(math, kAttention),
      ranks(d) {}

namespace {

// Byte offsets in the arena of 56331906816 bytes.
constexpr std::size_t kMasters = 0;
constexpr std::size_t kCopies = 4966326272;
constexpr std::size_t kGradients = 7449489408;
constexpr std::size_t kExpAvg = 46399254272;
constexpr std::size_t kExpAvgSq = 51365580544;
constexpr std::size_t kScalars = 12415815936;
constexpr std::size_t kResults = 12415815680;
constexpr std::size_t kChunks = 12425385216;
constexpr std::size_t kFirstChunk = 12427204864;
constexpr std::size_t kInitRules = 12427205632;
constexpr std::size_t kLayerParameters = 60821504;  // elements from a layer's parameters to the next layer's
constexpr int kChunkCount = 75809;                  // of at most 16384 elements: the optimizer's units of work

void embed(Step& s) {
  int* tokens = s.at<int>(12415816192);             // [32768]
  float* embed_weight = s.at<float>(kMasters + 0);  // [131072, 2048]
  float* x_first = s.at<float>(12504821504);        // [32768, 2048]

  const Range range("embed");
  launch(s.stream, Grid{32768, 128}, embedding_forward, tokens, embed_weight, x_first);
}

void layer_forward(Step& s, std::size_t layer) {
  float* x = s.at<float>(12504821504 + layer * 268435456);                                            // [32768, 2048]
  float* attention_norm_weight = s.at<float>(kMasters + 4 * (268435456 + layer * kLayerParameters));  // [2048]
  bf16* attention_norm_out = s.at<bf16>(43983073024);                                                 // [32768, 2048]
  float* attention_norm_rstd = s.at<float>(17068224256 + layer * 1682178048);                         // [32768]
  bf16* qkv_weight = s.at<bf16>(kCopies + 2 * (268437504 + layer * kLayerParameters));                // [3072, 2048]
  bf16* qkv_raw = s.at<bf16>(17068355328 + layer * 1682178048);                                       // [32768, 3072]
  float* rope_table = s.at<float>(12416472320);                                                       // [2048, 64]
  bf16* qkv = s.at<bf16>(17068355328 + layer * 1682178048);                           // [32768, 3072], over qkv_raw
  bf16* attention_out = s.at<bf16>(17269681920 + layer * 1682178048);                 // [32768, 2048]
  float* attention_lse = s.at<float>(17403899648 + layer * 1682178048);               // [512, 2048]
  bf16* o_weight = s.at<bf16>(kCopies + 2 * (274728960 + layer * kLayerParameters));  // [2048, 2048]
  float* x_mid = s.at<float>(17408093952 + layer * 1682178048);                       // [32768, 2048]
  float* mlp_norm_weight = s.at<float>(kMasters + 4 * (278923264 + layer * kLayerParameters));  // [2048]
  bf16* mlp_norm_out = s.at<bf16>(43983073024);                                                 // [32768, 2048]
  float* mlp_norm_rstd = s.at<float>(17676529408 + layer * 1682178048);                         // [32768]
  bf16* gate_up_weight = s.at<bf16>(kCopies + 2 * (278925312 + layer * kLayerParameters));      // [16384, 2048]
  bf16* gate_up_out = s.at<bf16>(17676660480 + layer * 1682178048);                             // [32768, 16384]
  bf16* swiglu_out = s.at<bf16>(43983073024);                                                   // [32768, 8192]
  bf16* down_weight = s.at<bf16>(kCopies + 2 * (312479744 + layer * kLayerParameters));         // [2048, 8192]
  float* x_next = s.at<float>(12773256960 + layer * 268435456);                                 // [32768, 2048]

  const Range range("layer_forward");
  launch(s.stream, Grid{32768, 128}, rms_norm_forward, x, attention_norm_weight, attention_norm_out,
         attention_norm_rstd);
  s.qkv_forward(s.stream, attention_norm_out, qkv_weight, nullptr, nullptr, qkv_raw, false);
  launch(s.stream, Grid{32768, 128}, rope, qkv_raw, rope_table);
  s.attention.forward(s.stream, qkv, attention_out, attention_lse);
  s.o_forward(s.stream, attention_out, o_weight, nullptr, x, x_mid, false);
  launch(s.stream, Grid{32768, 128}, rms_norm_forward, x_mid, mlp_norm_weight, mlp_norm_out, mlp_norm_rstd);
  s.gate_up_forward(s.stream, mlp_norm_out, gate_up_weight, nullptr, nullptr, gate_up_out, false);
  launch(s.stream, Grid{32768, 256}, swiglu_forward, gate_up_out, swiglu_out);
  s.down_forward(s.stream, swiglu_out, down_weight, nullptr, x_mid, x_next, false);
}

void head(Step& s) {
  float* x_last = s.at<float>(16799788800);                       // [32768, 2048]
  float* final_norm_weight = s.at<float>(kMasters + 4966318080);  // [2048]
  bf16* final_norm_out = s.at<bf16>(46130556672);                 // [32768, 2048]
  float* final_norm_rstd = s.at<float>(46398992128);              // [32768]

  const Range range("head");
  launch(s.stream, Grid{32768, 128}, rms_norm_forward, x_last, final_norm_weight, final_norm_out, final_norm_rstd);
}

void loss_chunk(Step& s, bool first, std::size_t chunk) {
  bf16* final_norm_out = s.at<bf16>(46130556672 + chunk * 33554432);    // [32768, 2048]
  bf16* embed_weight = s.at<bf16>(kCopies + 0);                         // [131072, 2048]
  bf16* logits = s.at<bf16>(43983073024);                               // [8192, 131072]
  int* targets = s.at<int>(12415947264 + chunk * 32768);                // [32768]
  float* losses = s.at<float>(46399123200 + chunk * 32768);             // [32768]
  bf16* d_final_norm_out = s.at<bf16>(46264774400 + chunk * 33554432);  // [32768, 2048]
  float* d_embed_weight = s.at<float>(kGradients + 0);                  // [131072, 2048]

  const Range range("loss_chunk");
  s.lm_head_forward(s.stream, final_norm_out, embed_weight, nullptr, nullptr, logits, false);
  launch(s.stream, Grid{65536, 512, 8}, cross_entropy_gradient, logits, targets, losses, s.at<StepScalars>(kScalars));
  s.lm_head_dgrad(s.stream, logits, embed_weight, nullptr, nullptr, d_final_norm_out, false);
  s.lm_head_wgrad(s.stream, logits, final_norm_out, nullptr, nullptr, d_embed_weight, !first || chunk > 0);
}

void head_backward(Step& s, bool first) {
  float* losses = s.at<float>(46399123200);                           // [32768]
  bf16* d_final_norm_out = s.at<bf16>(46264774400);                   // [32768, 2048]
  float* x_last = s.at<float>(16799788800);                           // [32768, 2048]
  float* final_norm_weight = s.at<float>(kMasters + 4966318080);      // [2048]
  float* final_norm_rstd = s.at<float>(46398992128);                  // [32768]
  bf16* d_x_last = s.at<bf16>(46130556672);                           // [32768, 2048]
  float* final_norm_backward_partial = s.at<float>(43983073024);      // [1024, 2048]
  float* final_norm_backward_folded = s.at<float>(43983073024);       // [32, 2048], over final_norm_backward_partial
  float* d_final_norm_weight = s.at<float>(kGradients + 4966318080);  // [2048]

  const Range range("head_backward");
  launch(s.stream, Grid{1, 1024}, loss_sum, losses, s.at<StepScalars>(kScalars), s.at<StepResults>(kResults), !first);
  launch(s.stream, Grid{1024, 256}, rms_norm_backward, d_final_norm_out, x_last, final_norm_weight, final_norm_rstd,
         nullptr, d_x_last, final_norm_backward_partial, nullptr);
  launch(s.stream, Grid{128, 128}, column_reduce_to_32_2048, final_norm_backward_partial, final_norm_backward_folded,
         false);
  launch(s.stream, Grid{4, 128}, column_reduce_2048, final_norm_backward_folded, d_final_norm_weight, !first);
}

void layer_backward(Step& s, bool first, std::size_t layer) {
  bf16* d_x_next = s.at<bf16>(46130556672);                                                     // [32768, 2048]
  bf16* down_weight = s.at<bf16>(kCopies + 2 * (312479744 + layer * kLayerParameters));         // [2048, 8192]
  bf16* d_swiglu_out = s.at<bf16>(45593685760);                                                 // [32768, 8192]
  bf16* gate_up_out = s.at<bf16>(17676660480 + layer * 1682178048);                             // [32768, 16384]
  bf16* d_gate_up_out = s.at<bf16>(43983073024);                                                // [32768, 16384]
  bf16* swiglu_out = s.at<bf16>(45056814848);                                                   // [32768, 8192]
  float* d_down_weight = s.at<float>(kGradients + 4 * (312479744 + layer * kLayerParameters));  // [2048, 8192]
  bf16* gate_up_weight = s.at<bf16>(kCopies + 2 * (278925312 + layer * kLayerParameters));      // [16384, 2048]
  bf16* d_mlp_norm_out = s.at<bf16>(45191032576);                                               // [32768, 2048]
  float* x_mid = s.at<float>(17408093952 + layer * 1682178048);                                 // [32768, 2048]
  float* mlp_norm_weight = s.at<float>(kMasters + 4 * (278923264 + layer * kLayerParameters));  // [2048]
  float* mlp_norm_rstd = s.at<float>(17676529408 + layer * 1682178048);                         // [32768]
  bf16* d_x_mid = s.at<bf16>(46130556672);                      // [32768, 2048], over d_x_next
  float* mlp_norm_backward_partial = s.at<float>(45325250304);  // [1024, 2048]
  bf16* mlp_norm_out = s.at<bf16>(45056814848);                 // [32768, 2048]
  float* mlp_norm_backward_folded = s.at<float>(45325250304);   // [32, 2048], over mlp_norm_backward_partial
  float* d_mlp_norm_weight = s.at<float>(kGradients + 4 * (278923264 + layer * kLayerParameters));  // [2048]
  float* d_gate_up_weight = s.at<float>(kGradients + 4 * (278925312 + layer * kLayerParameters));   // [16384, 2048]
  bf16* attention_out = s.at<bf16>(17269681920 + layer * 1682178048);                               // [32768, 2048]
  float* d_o_weight = s.at<float>(kGradients + 4 * (274728960 + layer * kLayerParameters));         // [2048, 2048]
  bf16* o_weight = s.at<bf16>(kCopies + 2 * (274728960 + layer * kLayerParameters));                // [2048, 2048]
  bf16* d_attention_out = s.at<bf16>(45327347456);                                                  // [32768, 2048]
  bf16* qkv = s.at<bf16>(17068355328 + layer * 1682178048);                             // [32768, 3072], over qkv_raw
  float* attention_lse = s.at<float>(17403899648 + layer * 1682178048);                 // [512, 2048]
  bf16* d_qkv = s.at<bf16>(45126020864);                                                // [32768, 3072]
  float* attention_workspace = s.at<float>(43983073024);                                // [285736960]
  float* rope_table = s.at<float>(12416472320);                                         // [2048, 64]
  bf16* d_qkv_raw = s.at<bf16>(45126020864);                                            // [32768, 3072], over d_qkv
  bf16* qkv_weight = s.at<bf16>(kCopies + 2 * (268437504 + layer * kLayerParameters));  // [3072, 2048]
  bf16* d_attention_norm_out = s.at<bf16>(44117290752);                                 // [32768, 2048]
  float* x = s.at<float>(12504821504 + layer * 268435456);                              // [32768, 2048]
  float* attention_norm_weight = s.at<float>(kMasters + 4 * (268435456 + layer * kLayerParameters));  // [2048]
  float* attention_norm_rstd = s.at<float>(17068224256 + layer * 1682178048);                         // [32768]
  bf16* d_x = s.at<bf16>(46130556672);                                // [32768, 2048], over d_x_next
  float* attention_norm_backward_partial = s.at<float>(44251508480);  // [1024, 2048]
  bf16* attention_norm_out = s.at<bf16>(43983073024);                 // [32768, 2048]
  float* attention_norm_backward_folded = s.at<float>(44251508480);  // [32, 2048], over attention_norm_backward_partial
  float* d_attention_norm_weight = s.at<float>(kGradients + 4 * (268435456 + layer * kLayerParameters));  // [2048]
  float* d_qkv_weight = s.at<float>(kGradients + 4 * (268437504 + layer * kLayerParameters));  // [3072, 2048]

  const Range range("layer_backward");
  s.down_dgrad(s.stream, d_x_next, down_weight, nullptr, nullptr, d_swiglu_out, false);
  launch(s.stream, Grid{32768, 256}, swiglu_backward_recompute, d_swiglu_out, gate_up_out, d_gate_up_out, swiglu_out);
  s.down_wgrad(s.stream, d_x_next, swiglu_out, nullptr, nullptr, d_down_weight, !first);
  s.gate_up_dgrad(s.stream, d_gate_up_out, gate_up_weight, nullptr, nullptr, d_mlp_norm_out, false);
  launch(s.stream, Grid{1024, 256}, rms_norm_backward_residual_recompute, d_mlp_norm_out, x_mid, mlp_norm_weight,
         mlp_norm_rstd, d_x_next, d_x_mid, mlp_norm_backward_partial, mlp_norm_out);
  launch(s.stream, Grid{128, 128}, column_reduce_to_32_2048, mlp_norm_backward_partial, mlp_norm_backward_folded,
         false);
  launch(s.stream, Grid{4, 128}, column_reduce_2048, mlp_norm_backward_folded, d_mlp_norm_weight, !first);
  s.gate_up_wgrad(s.stream, d_gate_up_out, mlp_norm_out, nullptr, nullptr, d_gate_up_weight, !first);
  s.o_wgrad(s.stream, d_x_mid, attention_out, nullptr, nullptr, d_o_weight, !first);
  s.o_dgrad(s.stream, d_x_mid, o_weight, nullptr, nullptr, d_attention_out, false);
  s.attention.backward(s.stream, d_attention_out, attention_out, qkv, attention_lse, d_qkv, attention_workspace);
  launch(s.stream, Grid{32768, 128}, rope_inverse, d_qkv, rope_table);
  s.qkv_dgrad(s.stream, d_qkv_raw, qkv_weight, nullptr, nullptr, d_attention_norm_out, false);
  launch(s.stream, Grid{1024, 256}, rms_norm_backward_residual_recompute, d_attention_norm_out, x,
         attention_norm_weight, attention_norm_rstd, d_x_mid, d_x, attention_norm_backward_partial, attention_norm_out);
  launch(s.stream, Grid{128, 128}, column_reduce_to_32_2048, attention_norm_backward_partial,
         attention_norm_backward_folded, false);
  launch(s.stream, Grid{4, 128}, column_reduce_2048, attention_norm_backward_folded, d_attention_norm_weight, !first);
  s.qkv_wgrad(s.stream, d_qkv_raw, attention_norm_out, nullptr, nullptr, d_qkv_weight, !first);
}

void embed_backward(Step& s) {
  bf16* d_x_first = s.at<bf16>(46130556672);            // [32768, 2048]
  int* embedding_order = s.at<int>(12416078336);        // [32768]
  int* run_begin = s.at<int>(12416209408);              // [32769]
  int* run_token = s.at<int>(12416340736);              // [32768]
  int* run_count = s.at<int>(12416471808);              // [1]
  float* d_embed_weight = s.at<float>(kGradients + 0);  // [131072, 2048]

  const Range range("embed_backward");
  launch(s.stream, Grid{32768, 128}, embedding_backward, d_x_first, embedding_order, run_begin, run_token, run_count,
         d_embed_weight);
}

void optimizer(Step& s) {
  float* gradient_partial = s.at<float>(43983073024);  // [75809]
  float* weight_partial = s.at<float>(43983376384);    // [75809]
  float* update_partial = s.at<float>(43983679744);    // [75809]
  float* tensor_norms = s.at<float>(12427212800);      // [1]

  const Range range("optimizer");
  launch(s.stream, Grid{75809, 256}, gradient_norm, s.at<float>(kGradients), s.at<Chunk>(kChunks), gradient_partial, 0,
         kChunkCount);
  launch(s.stream, Grid{1, 1024}, gradient_clip, gradient_partial, kChunkCount, s.at<StepScalars>(kScalars),
         s.at<StepResults>(kResults));
  launch(s.stream, Grid{75809, 256}, adamw_copy_norms, s.at<float>(kMasters), s.at<float>(kGradients),
         s.at<float>(kExpAvg), s.at<float>(kExpAvgSq), s.at<bf16>(kCopies), s.at<Chunk>(kChunks), 0, kChunkCount,
         s.at<StepScalars>(kScalars), s.at<StepResults>(kResults), weight_partial, update_partial);
  launch(s.stream, Grid{37, 128}, parameter_norms, gradient_partial, weight_partial, update_partial,
         s.at<int>(kFirstChunk), tensor_norms);
}

void evaluate_chunk(Step& s, std::size_t chunk) {
  bf16* final_norm_out = s.at<bf16>(46130556672 + chunk * 33554432);  // [32768, 2048]
  bf16* embed_weight = s.at<bf16>(kCopies + 0);                       // [131072, 2048]
  bf16* logits = s.at<bf16>(43983073024);                             // [8192, 131072]
  int* targets = s.at<int>(12415947264 + chunk * 32768);              // [32768]
  float* losses = s.at<float>(46399123200 + chunk * 32768);           // [32768]

  const Range range("evaluate_chunk");
  s.lm_head_forward(s.stream, final_norm_out, embed_weight, nullptr, nullptr, logits, false);
  launch(s.stream, Grid{65536, 512, 8}, cross_entropy, logits, targets, losses, s.at<StepScalars>(kScalars));
}

void evaluate_sum(Step& s, bool first) {
  float* losses = s.at<float>(46399123200);  // [32768]

  const Range range("evaluate_sum");
  launch(s.stream, Grid{1, 1024}, loss_sum, losses, s.at<StepScalars>(kScalars), s.at<StepResults>(kResults), !first);
}

void sample(Step& s) {
  bf16* final_norm_out = s.at<bf16>(46130556672);   // [32768, 2048]
  int* positions = s.at<int>(12416472064);          // [16]
  bf16* sample_rows = s.at<bf16>(46264774400);      // [16, 2048]
  bf16* embed_weight = s.at<bf16>(kCopies + 0);     // [131072, 2048]
  float* sample_logits = s.at<float>(12416996608);  // [16, 131072]

  const Range range("sample");
  launch(s.stream, Grid{8, 128}, gather_rows, final_norm_out, positions, sample_rows);
  s.sample_logits_forward(s.stream, sample_rows, embed_weight, nullptr, nullptr, sample_logits, false);
}

void forward(Step& s) {
  embed(s);
  for (std::size_t layer = 0; layer < 16; ++layer) {
    layer_forward(s, layer);
  }
  head(s);
}

}  // namespace

void own_attention_backward(Stream& stream, const bf16* dout, const bf16* out, const bf16* qkv, const float* lse,
                            bf16* dqkv, float* delta) {
  launch(stream, Grid{8192, 128}, attention_backward_queries, dout, out, qkv, lse, dqkv, delta);
  launch(stream, Grid{2048, 128}, attention_backward_keys, dout, qkv, lse, delta, dqkv);
}

Step* create_step(Device& device, std::byte* arena) {
  require_arch("90a");
  return new Step(device, arena);
}

void destroy_step(Step* step) { delete step; }

void initialise(Step& s, std::uint64_t seed) {
  launch(s.stream, Grid{2048, 128}, init_normal, s.at<float>(kMasters), s.at<InitRule>(kInitRules), 0, 146, seed);
  s.ranks.broadcast(s.at<float>(kMasters), 4966326272, 0, s.stream);  // every rank begins with rank 0's bits
}

void refresh_copies(Step& s) {
  launch(s.stream, Grid{75809, 256}, cast_weights, s.at<float>(kMasters), s.at<bf16>(kCopies), s.at<Chunk>(kChunks), 0,
         kChunkCount);
}

void micro_batch(Step& s, bool first, bool /*last*/) {
  forward(s);
  for (std::size_t chunk = 0; chunk < 4; ++chunk) {
    loss_chunk(s, first, chunk);
  }
  head_backward(s, first);
  for (std::size_t layer = 16; layer-- > 0;) {
    layer_backward(s, first, layer);
  }
  embed_backward(s);
}

void optimizer_step(Step& s) { optimizer(s); }

void evaluate(Step& s, bool first) {
  forward(s);
  for (std::size_t chunk = 0; chunk < 4; ++chunk) {
    evaluate_chunk(s, chunk);
  }
  evaluate_sum(s, first);
}

void next_logits(Step& s) {
  forward(s);
  sample(s);
}

}  // namespace llmc
