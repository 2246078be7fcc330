// Ranges that ranks compare with each other, by value of parallel.shard.
#include "step/replicas.h"

#include <gtest/gtest.h>

namespace llmc {
namespace {

/// "masters 0+4000; copies_bf16 128+320 640+320; ": names, and offset and bytes of each range.
std::string replicas_of(Shard shard, std::span<const Gathered> gathered) {
  static constexpr Buffer kBuffers[] = {{"masters", DType::f32, 1000, Use::masters, 0},
                                        {"copies_bf16", DType::bf16, 1000, Use::copies, 4096},
                                        {"gradients", DType::f32, 1000, Use::gradients, 8192},
                                        {"exp_avg", DType::f32, 1000, Use::state, 16384}};
  ProgramInfo info{};
  info.buffers = kBuffers;
  info.shard = shard;
  info.gathered = gathered;
  std::string text;
  for (const Replica& replica : replicas(info)) {
    text += replica.name;
    for (const auto& [offset, bytes] : replica.intervals)
      text += " " + std::to_string(offset) + "+" + std::to_string(bytes);
    text += "; ";
  }
  return text;
}

TEST(Replicas, AreWhatEachRankHasAlike) {
  EXPECT_EQ(replicas_of(Shard::none, {}), "masters 0+4000; copies_bf16 4096+2000; exp_avg 16384+4000; ");
  static constexpr Gathered kGathered[] = {{"masters", 0, 16}, {"copies_bf16", 64, 160}, {"copies_bf16", 320, 160}};
  EXPECT_EQ(replicas_of(Shard::gradients, kGathered), "masters 0+64; copies_bf16 4224+320 4736+320; ");
  EXPECT_EQ(replicas_of(Shard::parameters, {}), "");
}

}  // namespace
}  // namespace llmc
