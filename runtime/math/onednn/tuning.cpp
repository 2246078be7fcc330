#include "math/tuning.h"

#include "error.h"

namespace llmc {

std::string tune_products(Device&, std::span<const GemmShape>, std::size_t, const TuneHow&,
                          const std::function<void(const TunedProduct&)>&) {
  throw Failure(Exit::usage, "tune is for GPUs: on a CPU oneDNN has only one kernel for a product");
}

std::string tune_attention(Device&, const AttentionPlan&, std::size_t, const TuneHow&,
                           const std::function<void(const TunedAttention&)>&) {
  throw Failure(Exit::internal, "a CPU has only one attention kernel");
}

bool attention_has_choice(const AttentionPlan&) { return false; }

std::string describe_attention(const AttentionPlan&) {
  throw Failure(Exit::internal, "a CPU has only one attention kernel");
}

std::string describe_tuning(std::span<const GemmShape>, std::size_t, int) { return ""; }

}  // namespace llmc
