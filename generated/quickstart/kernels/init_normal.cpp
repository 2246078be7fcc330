// init_normal: from template init_normal for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// kWeightShare = false, kLanes = 1
//
// 5770496 elements in 365 chunks of at most 16384; moves 23.08 MB a launch.

// init_normal: initial weights, independent of the layout. Element (r, c) of a parameter is normal draw number r * cols
// + c of the stream (seed, key), times std: Philox4x32-10 (Salmon et al. 2011) with draw and seed as the counter, then
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

/// Returns number `draw` of the stream: the cosine half of a Box-Muller pair. Magnitudes end at 5.9.
LLMC_HD inline float normal(unsigned long long draw, unsigned long long seed, unsigned long long key) {
  unsigned counter[4] = {static_cast<unsigned>(draw), static_cast<unsigned>(draw >> 32), static_cast<unsigned>(seed),
                         static_cast<unsigned>(seed >> 32)};
  philox(counter, static_cast<unsigned>(key), static_cast<unsigned>(key >> 32));
  // 24 bits, so that the integer is exact in fp32; the middle of its interval, so that the logarithm is finite.
  const float uniform = (static_cast<float>(static_cast<int>(counter[0] >> 8)) + 0.5f) * 5.9604645e-8f;
  const float turns = static_cast<float>(static_cast<int>(counter[1] >> 8)) * 5.9604645e-8f;
  return sqrt(-2.0f * log(uniform)) * cos_turns(turns);
}

/// master: a flat parameter buffer, or (kWeightShare) this rank's shard of one; chunks [begin, end); rules: one per
/// parameter. If std is 0, every element is `value`. The padding of rows is zero.
LLMC_BOUNDS(1)
LLMC_KERNEL init_normal(float* __restrict__ master, const InitRule* __restrict__ rules,
                        const Chunk* __restrict__ chunks, int begin, int end, unsigned long long seed) {
  const Group<1> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    const InitRule rule = rules[chunk.parameter];
    float* data = master + (false ? chunk.state : chunk.offset);
    // Writes the chunk's part of each row in turn.
    const int pitch = static_cast<int>(rule.pitch), cols = static_cast<int>(rule.cols);
    long long row = (chunk.offset - rule.offset) / pitch;
    int column = static_cast<int>((chunk.offset - rule.offset) % pitch);
    for (int done = 0; done < chunk.length; ++row, column = 0) {
      const int rest = chunk.length - done, length = pitch - column < rest ? pitch - column : rest;
      const int values = column < cols ? cols - column : 0, drawn = values < length ? values : length;
      const unsigned long long first = static_cast<unsigned long long>(row) * rule.cols + column;
      if (rule.std == 0.0f) {
        lanes.map(lanes.run(data + done, drawn), [=](float& v) { v = rule.value; });
      } else {
        lanes.store(lanes.run(data + done, drawn), lanes.indices(),
                    [=](int c) { return normal(first + static_cast<unsigned>(c), seed, rule.key) * rule.std; });
      }
      lanes.map(lanes.unaligned(data + done + drawn, length - drawn), [](float& v) { v = 0.0f; });
      done += length;
    }
  }
}

}  // namespace llmc
