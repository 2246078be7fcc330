// A program that uses the whole CUDA runtime like a trainer: it must link, and run on machines with a GPU.
#include <cstdio>

#include "comm/collectives.h"
#include "comm/launcher.h"
#include "comm/rendezvous.h"
#include "device/cuda/arch.h"
#include "device/group.h"
#include "device/launch.h"
#include "error.h"
#include "math/attention.h"

namespace llmc {

LLMC_KERNEL add_one(float* values, int count, float amount) {
  const Group<32> g;
  if (g.alone()) g.map(g.run(values, count), [=](float& v) { v += amount; });
}

int run() {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  Device device(0, 0);
  require_arch(LLMC_ARCHS);
  std::byte* arena = device.allocate(256 * kMiB);
  MathLibrary math(device, arena, 32 * kMiB);
  const Gemm gemm(math, {.m = 64,
                         .n = 64,
                         .k = 64,
                         .transpose_b = true,
                         .pitch_a = 64,
                         .pitch_b = 64,
                         .pitch_d = 64,
                         .operand = DType::bf16,
                         .result = DType::bf16});
  const AttentionShape shape = {
      .batch = 1, .sequence = 128, .heads = 4, .kv_heads = 2, .head_dim = 64, .qkv_pitch = 512, .out_pitch = 256};
  constexpr BackwardWay ways[] = {{AttentionBy::cudnn}};
  const Attention attention(math, {shape, ways});
  const LauncherInfo alone;
  Rendezvous rendezvous(alone, {});
  Communicator communicator(device, alone, rendezvous);
  std::printf("%s; %s\n", device.description(), communicator.description());

  const auto at = [&](std::size_t mib) { return arena + mib * kMiB; };
  gemm(device.stream(), {at(32), at(33), nullptr, nullptr, at(34), false});
  auto* lse = reinterpret_cast<float*>(at(35));
  attention.forward(device.stream(), at(36), at(37), lse);
  attention.backward(device.stream(), at(38), at(37), at(36), lse, at(39), at(40));
  auto* sum = reinterpret_cast<float*>(at(38));
  launch(device.stream(), Grid{4, 128}, add_one, sum, 1000, 1);  // an int where the kernel has a float
  communicator.all_reduce_sum(sum, 1000, device.stream());
  communicator.broadcast(sum, 4000, 0, device.stream());
  float last = 0;
  device.copy_out(&last, sum + 999, sizeof last);
  device.synchronize();
  return last == 1.0f ? 0 : 1;
}

}  // namespace llmc

int main() {
  try {
    return llmc::run();
  } catch (const llmc::Failure& failure) {
    std::printf("%s\n", failure.what());
    return static_cast<int>(failure.code());
  }
}
