// AdamW (Loshchilov and Hutter 2019).
#include "compiler/ops/rows.h"
#include "compiler/ops/update.h"

namespace llmc::ops {
namespace {

std::vector<Work> adamw_work(const Context& c) { return update_work(c, 15, "adamw_split"); }

}  // namespace

constexpr OpRow kAdamw = StepRow{.signature = update_signature,
                                 .scratch = sum_a_chunk,
                                 .changes = update_changes(2),
                                 .updates_weights = true,
                                 .work = adamw_work};

}  // namespace llmc::ops
