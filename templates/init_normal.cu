// init_normal: initial weights, independent of the layout. Element (r, c) of a parameter is normal draw number r * cols
// + c of the stream (seed, key), times std: Philox4x32-10 (Salmon et al. 2011) with draw and seed as the counter, then
// Box-Muller.
#include "device/group.h"
#include "params.h"

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

/// Inverse of the error function for |x| < 0.998 (Giles 2010, "Approximating the erfinv function").
LLMC_HD inline float inverse_erf(float x) {
  const float w = -log((1.0f - x) * (1.0f + x));
  const bool tail = w >= 5.0f;
  const float t = tail ? sqrt(w) - 3.0f : w - 2.5f;
  float p = tail ? -0.000200214257f : 2.81022636e-8f;
  p = fma(p, t, tail ? 0.000100950558f : 3.43273939e-7f);
  p = fma(p, t, tail ? 0.00134934322f : -3.5233877e-6f);
  p = fma(p, t, tail ? -0.00367342844f : -4.39150654e-6f);
  p = fma(p, t, tail ? 0.00573950773f : 0.00021858087f);
  p = fma(p, t, tail ? -0.0076224613f : -0.00125372503f);
  p = fma(p, t, tail ? 0.00943887047f : -0.00417768164f);
  p = fma(p, t, tail ? 1.00167406f : 0.246640727f);
  p = fma(p, t, tail ? 2.83297682f : 1.50140941f);
  return p * x;
}

/// Returns number `draw` of the stream: the cosine half of a Box-Muller pair. Magnitudes end at 5.9.
LLMC_HD inline float normal(unsigned long long draw, unsigned long long seed, unsigned long long key) {
  unsigned counter[4] = {static_cast<unsigned>(draw), static_cast<unsigned>(draw >> 32), static_cast<unsigned>(seed),
                         static_cast<unsigned>(seed >> 32)};
  philox(counter, static_cast<unsigned>(key), static_cast<unsigned>(key >> 32));
  // 24 bits, so that the integer is exact in fp32; the middle of its interval, so that the logarithm is finite.
  const float uniform = (static_cast<float>(static_cast<int>(counter[0] >> 8)) + 0.5f) * 5.9604645e-8f;
  if constexpr (kUniform) return 1.7320508f * (2.0f * uniform - 1.0f);  // of variance 1
  // The quantile of the normal distribution within 3: erf(3 / sqrt(2)) of it.
  if constexpr (kTruncated) return 1.41421356f * inverse_erf(0.9973002f * (2.0f * uniform - 1.0f));
  const float turns = static_cast<float>(static_cast<int>(counter[1] >> 8)) * 5.9604645e-8f;
  return sqrt(-2.0f * log(uniform)) * cos_turns(turns);
}

/// master: a flat parameter buffer, or (kWeightShare) this rank's shard of one; chunks [begin, end); rules: one per
/// parameter. If std is 0, every element is `value`. The padding of rows is zero.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL init_normal(float* __restrict__ master, const InitRule* __restrict__ rules,
                        const Chunk* __restrict__ chunks, int begin, int end, unsigned long long seed) {
  const Group<kLanes> lanes;
  for (const int i : lanes.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    const InitRule rule = rules[chunk.parameter];
    float* data = master + (kWeightShare ? chunk.state : chunk.offset);
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
