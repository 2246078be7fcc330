// Draws initial weights: element (r, c) of a parameter is draw r * cols + c of the stream of (seed, key), whatever the
// layout, the number of threads or of ranks. Philox4x32-10 (Salmon et al. 2011) gives four words for each four draws,
// Box-Muller turns pairs of them into normals. std == 0: every element is `value`. Rules [begin, end) of rules; padding stays zero.
#include "device/group.h"
#include "params.h"

namespace llmc {

struct Words {
  unsigned w[4];
};

LLMC_INLINE Words philox(unsigned long long counter, unsigned long long stream, unsigned long long key) {
  Words x = {{static_cast<unsigned>(counter), static_cast<unsigned>(counter >> 32), static_cast<unsigned>(stream),
              static_cast<unsigned>(stream >> 32)}};
  unsigned k0 = static_cast<unsigned>(key), k1 = static_cast<unsigned>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * x.w[0], b = 0xCD9E8D57ull * x.w[2];
    x = {{static_cast<unsigned>(b >> 32) ^ x.w[1] ^ k0, static_cast<unsigned>(b),
          static_cast<unsigned>(a >> 32) ^ x.w[3] ^ k1, static_cast<unsigned>(a)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return x;
}

/// Draw `index` of the stream.
LLMC_INLINE float normal(unsigned long long index, unsigned long long stream, unsigned long long seed) {
  const Words words = philox(index / 4, stream, seed);
  const int pair = static_cast<int>(index / 2 % 2) * 2;
  const float u = (static_cast<float>(words.w[pair] >> 8) + 0.5f) * 5.9604645e-8f;  // (0, 1)
  const float angle = static_cast<float>(words.w[pair + 1] >> 8) * (6.2831853f * 5.9604645e-8f);
  const float radius = sqrt(-2.0f * log(u));
  return radius * (index % 2 ? sin(angle) : cos(angle));
}

LLMC_KERNEL init_normal(float* master, const InitRule* rules, int begin, int end, unsigned long long seed) {
  const Group<kLanes> g;
  for (int i = begin; i < end; ++i) {
    const InitRule rule = rules[i];
    for (int row : g.rows(static_cast<int>(rule.rows))) {
      float* to = master + rule.offset + row * rule.pitch;
      g.each_of(static_cast<int>(rule.cols), [=](int c) {
        to[c] = rule.std > 0.0f ? rule.std * normal(row * rule.cols + c, rule.key, seed) : rule.value;
      });
    }
  }
}

}  // namespace llmc
