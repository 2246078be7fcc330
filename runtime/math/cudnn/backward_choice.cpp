#include "math/cudnn/backward_choice.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmc {

std::string attention_key(const AttentionShape& s) {
  return fmt::format("[batch {}, sequence {}, heads {} over {}, head_dim {}] pitches {}, {}{}{}{}", s.batch, s.sequence,
                     s.heads, s.kv_heads, s.head_dim, s.qkv_pitch, s.out_pitch,
                     s.deterministic ? ", deterministic" : "", s.window ? fmt::format(", window {}", s.window) : "",
                     s.multiplier != 0 ? fmt::format(", multiplier {}", s.multiplier) : "");
}

std::string backward_name(AttentionBy by) { return by == AttentionBy::cudnn ? cudnn_name() : "llmc's kernels"; }

ChosenBackward choose_backward(const MathLibrary::Impl& library, const AttentionPlan& plan) {
  const BackwardWay& first = plan.ways.front();
  if (plan.ways.size() == 1) return {&first, "the only variant in this trainer"};
  const BackwardWay& second = plan.ways[1];
  if (const std::string refusal = cudnn_release_refusal(cudnn_version(), plan.shape, true, library.capability);
      !refusal.empty())
    return {first.by == AttentionBy::portable ? &first : &second, refusal};
  if (const auto tuned = library.tuned.find(library, plan.shape)) {
    const BackwardWay& way = first.by == tuned->by ? first : second;
    const BackwardWay& other = first.by == tuned->by ? second : first;
    return {&way, fmt::format("measured: {:.4f} ms a layer, {} {:.4f}; read from {}", tuned->ms(way.by),
                              backward_name(other.by), tuned->ms(other.by), library.tuned.name())};
  }
  if (first.predicted_ms > 0)
    return {&first, fmt::format("predicted: {:.4f} ms a layer, {} {:.4f}; trainer tune measures both",
                                first.predicted_ms, backward_name(second.by), second.predicted_ms)};
  return {&first, fmt::format("no rates are known for this target.arch; trainer tune measures it against {}",
                              backward_name(second.by))};
}

}  // namespace llmc
