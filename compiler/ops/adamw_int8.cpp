// AdamW (Loshchilov and Hutter 2019) with moments in 8 bits (Dettmers et al. 2022).
#include "compiler/ops/rows.h"
#include "compiler/ops/update.h"

namespace llmc::ops {
namespace {

std::vector<Work> adamw_int8_work(const Context& c) { return update_work(c, 25, "adamw_int8"); }

}  // namespace

constexpr OpRow kAdamwInt8 = StepRow{.signature = update_signature,
                                     .scratch = sum_a_chunk,
                                     .changes = update_changes(4),
                                     .updates_weights = true,
                                     .work = adamw_int8_work};

}  // namespace llmc::ops
