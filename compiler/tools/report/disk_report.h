// Predicts the disk space of a run's checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// Of the tensors of one checkpoint.
std::int64_t checkpoint_bytes(const plan::Plan& plan);

/// Most checkpoints on disk at a time up to the end of the phase, without phases of the run: those that retention keeps
/// (checkpoint/retention.h) and the one that is being written. Of runs that no guard sends back.
std::size_t most_checkpoints(const plan::Plan& plan);

/// Returns the host memory of the snapshot for writing a checkpoint during training; 0: training waits.
std::size_t snapshot_bytes(const plan::Plan& plan);

std::string disk_text(const plan::Plan& plan);

}  // namespace llmc::report
