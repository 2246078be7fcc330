#include "device/cuda/block_memory.h"
#include "device/cuda/ptx.h"
#include "kernels.h"

namespace llmc {

void shared_boxes(const __grid_constant__ TileMap map, unsigned short* out, int fault) {
  auto& box = *reinterpret_cast<unsigned short(*)[16][64]>(block_memory);
  auto* const barriers = reinterpret_cast<CopyBarrier*>(block_memory + sizeof(box));
  CopyBarrier *const full = barriers, *const empty = barriers + 1;
  const int lane = static_cast<int>(threadIdx.x), rank = cluster_rank();
  if (lane == 0) {
    if (fault != no_barrier) init_barrier(full, 1);
    init_barrier(empty, 8);
    if (fault != no_fence) fence_barrier_init();
  }
  cluster_arrive();
  if (fault != may_not_have_begun) cluster_wait();
  for (int turn = 0; turn < 2; ++turn) {
    if (lane == 0) {
      if (turn > 0 && fault != overwrites) wait_for_phase(empty, turn - 1);
      arrive_expecting(full, fault == too_few_bytes ? 4096 : 2048);
      if (fault == arrives_again) arrive_expecting(full, 2048);
      copy_box(box[8 * rank], map, 64, 1, 16 * turn + 8 * rank, 1, full, 3);
      if (fault == reads_early) out[4096] = box[8 * rank + 3][5];
    }
    const bool waits = fault != warp_does_not_wait || lane < 96 || turn == 0;
    if (waits) wait_for_phase(full, fault == wrong_phase ? 0 : turn);
    for (int row = 0; row < 16; ++row)
      if (lane < 64) out[((rank * 2 + turn) * 16 + row) * 64 + lane] = box[row][lane];
    if (lane >= 96) out[4096 + 128 * rank + lane] = box[0][0];
    if (fault != warp_is_not_together) __syncwarp();
    if (lane % 32 < 2) arrive_at(empty, lane % 32);
  }
  if (fault == ends_early) return;
  cluster_arrive();
  cluster_wait();
}

}  // namespace llmc
