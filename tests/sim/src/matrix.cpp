// Joint operations of a warp's lanes for tensor cores.
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

/// Data brought by each lane of a warp. Two buffers alternate: a lane that is ahead by one instruction writes to the
/// other, and it cannot be ahead by two.
struct Brought {
  unsigned a[32][4], b[32][2];
  const void* address[32];
};
struct Warp {
  Brought brought[2];
  unsigned turn[32];
};

/// Calls put(buffer, this lane) and returns the buffer when all lanes have done so. Orders no memory, like the
/// instructions.
template <class Put>
const Brought& bring(const Put& put) {
  static Warp warps[kMostBlocks][kWarps];
  const int lane = lane_of_warp();
  Warp& warp = warps[cluster_rank()][thread_index().x / 32];
  Brought& place = warp.brought[warp.turn[lane]++ % 2];
  put(place, lane);
  vote(kWholeWarp, true);
  return place;
}

unsigned short element(const unsigned* words, int number) {
  return static_cast<unsigned short>(words[number / 2] >> number % 2 * 16);
}

}  // namespace

void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], float (*number)(unsigned short bits)) {
  const Brought& all = bring([&](Brought& place, int lane) {
    for (int i = 0; i < 4; ++i) place.a[lane][i] = a[i];
    for (int i = 0; i < 2; ++i) place.b[lane][i] = b[i];
  });
  const int lane = lane_of_warp();
  for (int i = 0; i < 4; ++i) {
    const int lower = i / 2, column = lane % 4 * 2 + i % 2;  // row lane / 4 + 8 lower
    float sum = 0.0f;
    for (int k = 0; k < 16; ++k) {
      const int right = k / 8, holder = k % 8 / 2;
      sum += number(element(all.a[lane / 4 * 4 + holder], 4 * right + 2 * lower + k % 2)) *
             number(element(all.b[column * 4 + holder], 2 * right + k % 2));
    }
    d[i] += sum;
  }
}

void exchange_addresses(const void* mine, const unsigned short* (&rows)[32]) {
  if (reinterpret_cast<std::uintptr_t>(mine) % 16) report("ldmatrix of a row that is not aligned to 16 bytes");
  const Brought& all = bring([&](Brought& place, int lane) { place.address[lane] = mine; });
  for (int lane = 0; lane < 32; ++lane) rows[lane] = static_cast<const unsigned short*>(all.address[lane]);
}

}  // namespace sim
