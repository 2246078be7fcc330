// Joint operations of a warp's lanes for tensor cores.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "block_order.h"
#include "cuda_runtime.h"
#include "device/cuda/ptx.h"
#include "report.h"

namespace sim {
namespace {

constexpr unsigned kWholeWarp = 0xffffffffu;

/// Data brought by the lanes of a warp: the numbers of A and B, and the sums once one lane has computed them all; or
/// addresses. Two buffers alternate: a lane that is ahead by one instruction writes to the other, and it cannot be
/// ahead by two.
struct Brought {
  float a[16][16], b[16][8], sums[16][8];
  bool summed;
  const void* address[32];
};
struct Warp {
  Brought brought[2];
  unsigned turn[32];
};

/// Calls put(buffer, this lane) and returns the buffer when all lanes have done so. Orders no memory, like the
/// instructions.
template <class Put>
Brought& bring(const Put& put) {
  static Warp warps[kMostBlocks][kWarps];
  const int lane = lane_of_warp();
  Warp& warp = warps[cluster_rank()][thread_index().x / 32];
  Brought& place = warp.brought[warp.turn[lane]++ % 2];
  put(place, lane);
  vote(kWholeWarp, true);
  return place;
}

/// sums = A B, each in ascending order of k.
void add_up(Brought& all) {
  for (int row = 0; row < 16; ++row) {
    float sums[8] = {};
    for (int k = 0; k < 16; ++k)
      for (int column = 0; column < 8; ++column) sums[column] += all.a[row][k] * all.b[k][column];
    std::copy(sums, sums + 8, all.sums[row]);
  }
  all.summed = true;
}

}  // namespace

void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], float (*number)(unsigned short bits)) {
  const auto element = [&](unsigned word, int upper) {
    return number(static_cast<unsigned short>(word >> 16 * upper));
  };
  Brought& all = bring([&](Brought& place, int lane) {
    for (int i = 0; i < 8; ++i)
      place.a[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i / 4 * 8 + i % 2] = element(a[i / 2], i % 2);
    for (int i = 0; i < 4; ++i) place.b[lane % 4 * 2 + i / 2 * 8 + i % 2][lane / 4] = element(b[i / 2], i % 2);
    place.summed = false;
  });
  if (!all.summed) add_up(all);
  const int lane = lane_of_warp();
  for (int i = 0; i < 4; ++i) d[i] += all.sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

void exchange_addresses(const void* mine, const unsigned short* (&rows)[32]) {
  if (reinterpret_cast<std::uintptr_t>(mine) % 16) report("ldmatrix of a row that is not aligned to 16 bytes");
  const Brought& all = bring([&](Brought& place, int lane) { place.address[lane] = mine; });
  for (int lane = 0; lane < 32; ++lane) rows[lane] = static_cast<const unsigned short*>(all.address[lane]);
}

}  // namespace sim
