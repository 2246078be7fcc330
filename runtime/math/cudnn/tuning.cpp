#include "math/tuning.h"

#include <algorithm>

#include "device/cuda/stream.h"
#include "math/cublaslt/trial.h"
#include "math/cublaslt/tuned_file.h"
#include "math/cudnn/backward_choice.h"

namespace llmc {

std::string tune_attention(Device& device, const AttentionPlan& plan, std::size_t workspace_bytes, const TuneHow& how,
                           const std::function<void(const TunedAttention&)>& report) {
  const AttentionShape& s = plan.shape;
  const auto aligned = [](std::int64_t elements, std::size_t size) {
    return (static_cast<std::size_t>(elements) * size + 255) / 256 * 256;
  };
  const std::size_t qkv_bytes = aligned(s.batch * s.sequence * s.qkv_pitch, sizeof(bf16));
  const std::size_t out_bytes = aligned(s.batch * s.sequence * s.out_pitch, sizeof(bf16));
  const std::size_t lse_bytes = aligned(s.batch * s.heads * s.sequence, sizeof(float));
  const std::size_t table_bytes = plan.rotate_back ? aligned(s.sequence * s.head_dim, sizeof(float)) : 0;
  std::size_t scratch = 0;
  for (const BackwardWay& way : plan.ways) scratch = std::max(scratch, way.workspace_bytes);
  std::byte* const memory =
      device.allocate(workspace_bytes + 2 * qkv_bytes + 2 * out_bytes + lse_bytes + table_bytes + scratch);
  std::byte *qkv = memory + workspace_bytes, *dqkv = qkv + qkv_bytes, *out = dqkv + qkv_bytes, *dout = out + out_bytes;
  auto* const lse = reinterpret_cast<float*>(dout + out_bytes);
  std::byte* const rope_table = dout + out_bytes + lse_bytes;
  std::byte* const workspace = rope_table + table_bytes;
  Normals normals(device);
  normals.fill(qkv, qkv_bytes, DType::bf16);
  normals.fill(dout, out_bytes, DType::bf16);
  normals.fill(rope_table, table_bytes, DType::f32);

  MathLibrary library(device, memory, workspace_bytes);
  std::vector<Attention> attentions;  // one per variant
  for (const BackwardWay& way : plan.ways)
    attentions.emplace_back(library, AttentionPlan{s, {&way, 1}, plan.own, plan.rotate_back});
  attentions[0].forward(device.stream(), qkv, out, lse);  // all variants read its output
  const Card card(device.identity());
  const Times times = times_of(device.stream().handle, attentions.size(), how.sustained_ms, card, [&](std::size_t i) {
    attentions[i].backward(device.stream(), dout, out, qkv, lse, dqkv, workspace,
                           reinterpret_cast<const float*>(rope_table));
    return true;
  });

  const std::size_t chosen = worth_taking(times.ms);
  TunedFile::Backward entry = {plan.ways[chosen].by, 0, 0, times.cards[chosen]};
  for (std::size_t i = 0; i < times.ms.size(); ++i) {
    (plan.ways[i].by == AttentionBy::cudnn ? entry.cudnn_ms : entry.portable_ms) = times.ms[i];
    report({backward_name(plan.ways[i].by), plan.ways[i].predicted_ms, times.ms[i], i == chosen});
  }
  TunedFile file = TunedFile::read(tuned_file());
  file.put(library.impl(), s, entry);
  return file.text();
}

bool attention_has_choice(const AttentionPlan& plan) {
  const MathLibrary::Impl library(nullptr, 0);
  return plan.ways.size() > 1 && cudnn_release_refusal(cudnn_version(), plan.shape, true, library.capability).empty();
}

std::string describe_attention(const AttentionPlan& plan) {
  MathLibrary::Impl library(nullptr, 0);
  library.tuned = TunedFile::read(tuned_file());
  const ChosenBackward chosen = choose_backward(library, plan);
  return "backward by " + backward_name(chosen.way->by) + ", " + chosen.why;
}

}  // namespace llmc
