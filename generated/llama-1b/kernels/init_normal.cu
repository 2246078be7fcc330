// init_normal: from template init_normal for run llama-1b (83c3f3dbf15a0b7ad9c9d48ee87ab182).
//
// kLanes = 64
//
// 146 tensors of 1241581568 elements in all; moves 4966.33 MB a launch.

// init_normal: initial weights. Element (r, c) of a parameter is normal draw number r * cols + c of the stream (seed,
// key) times std, whatever the layout: Philox4x32-10 (Salmon et al. 2011) with the draw and the seed as counter, then
// Box-Muller.
#include "device/group.h"

namespace llmc {

LLMC_HD inline void philox(unsigned (&counter)[4], unsigned low, unsigned high) {
  for (int round = 0; round < 10; ++round) {
    const unsigned long long first = 0xd2511f53ull * counter[0], second = 0xcd9e8d57ull * counter[2];
    counter[0] = static_cast<unsigned>(second >> 32) ^ counter[1] ^ low;
    counter[2] = static_cast<unsigned>(first >> 32) ^ counter[3] ^ high;
    counter[1] = static_cast<unsigned>(second);
    counter[3] = static_cast<unsigned>(first);
    low += 0x9e3779b9u;
    high += 0xbb67ae85u;
  }
}

/// Number `draw` of the stream: the cosine half of a Box-Muller pair. Magnitudes end at 5.9.
LLMC_HD inline float normal(unsigned long long draw, unsigned long long seed, unsigned long long key) {
  unsigned counter[4] = {static_cast<unsigned>(draw), static_cast<unsigned>(draw >> 32), static_cast<unsigned>(seed),
                         static_cast<unsigned>(seed >> 32)};
  philox(counter, static_cast<unsigned>(key), static_cast<unsigned>(key >> 32));
  // 24 bits, so that the integer is exact in fp32; the middle of its interval, so that the logarithm is finite.
  const float uniform = (static_cast<float>(static_cast<int>(counter[0] >> 8)) + 0.5f) * 5.9604645e-8f;
  const float turns = static_cast<float>(static_cast<int>(counter[1] >> 8)) * 5.9604645e-8f;
  return sqrt(-2.0f * log(uniform)) * cos_turns(turns);
}

/// master: a flat parameter buffer; rules [begin, end): one a parameter. Where std is 0, every element is `value`.
LLMC_BOUNDS(64)
LLMC_KERNEL init_normal(float* __restrict__ master, const InitRule* __restrict__ rules, int begin, int end,
                        unsigned long long seed) {
  const Group<64> lanes;
  for (int i = begin; i < end; ++i) {
    const InitRule rule = rules[i];
    const int cols = static_cast<int>(rule.cols), padding = static_cast<int>(rule.pitch - rule.cols);
    for (const int row : lanes.rows(static_cast<int>(rule.rows))) {
      float* data = master + rule.offset + row * rule.pitch;
      const unsigned long long first = static_cast<unsigned long long>(row) * rule.cols;
      if (rule.std == 0.0f) {
        lanes.map(lanes.run(data, cols), [=](float& v) { v = rule.value; });
      } else {
        lanes.store(lanes.run(data, cols), lanes.indices(), [=](int column) {
          return normal(first + static_cast<unsigned>(column), seed, rule.key) * rule.std;
        });
      }
      lanes.map(lanes.unaligned(data + cols, padding), [](float& v) { v = 0.0f; });
    }
  }
}

}  // namespace llmc
