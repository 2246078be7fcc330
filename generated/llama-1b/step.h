// The functions of the step of run llama-1b (7e163a6e421176c5cc4c286789b5e0f9).
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "train/program.h"

namespace llmc {

Step* create_step(Device& device, std::byte* arena);
void destroy_step(Step* step);
void initialise(Step& step, std::uint64_t seed);
void refresh_copies(Step& step);
void micro_batch(Step& step, bool first, bool last);
void optimizer_step(Step& step);
void evaluate(Step& step, bool first);
void next_logits(Step& step);

}  // namespace llmc
