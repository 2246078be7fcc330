// Lion (Chen et al. 2023).
#include "compiler/ops/rows.h"
#include "compiler/ops/update.h"

namespace llmc::ops {
namespace {

std::vector<Work> lion_work(const Context& c) { return update_work(c, 11, "lion_split"); }

}  // namespace

constexpr OpRow kLion = StepRow{.signature = update_signature,
                                .scratch = sum_a_chunk,
                                .changes = update_changes(1),
                                .updates_weights = true,
                                .work = lion_work};

}  // namespace llmc::ops
