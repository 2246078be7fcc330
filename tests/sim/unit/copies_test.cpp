// Boxes that the hardware copies to the blocks of a cluster, and barriers that they come at.
#include <algorithm>
#include <vector>

#include "device_memory.h"
#include "error.h"

namespace llmc {
namespace {

constexpr int kSequences = 2, kTokens = 28, kHeads = 3, kWidth = 96, kPitch = 296;

unsigned short element(int sequence, int token, int head, int column) {
  return static_cast<unsigned short>(1 + ((sequence * 50 + token) * 5 + head) * 100 + column);
}

/// Of heads as in the constants above; boxes of `rows`.
struct Boxes {
  explicit Boxes(int fault, int rows = 8) : tensor(kSequences * kTokens * kPitch), out(4096 + 256) {
    std::vector<unsigned short> values(kSequences * kTokens * kPitch, 0xffff);
    for (int s = 0; s < kSequences; ++s)
      for (int t = 0; t < kTokens; ++t)
        for (int h = 0; h < kHeads; ++h)
          for (int c = 0; c < kWidth; ++c)
            values[static_cast<std::size_t>((s * kTokens + t) * kPitch + h * kWidth + c)] = element(s, t, h, c);
    cudaMemcpy(tensor, values.data(), values.size() * 2, cudaMemcpyHostToDevice);
    const TileMap map = map_of_heads(reinterpret_cast<const bf16*>(static_cast<unsigned short*>(tensor)), kSequences,
                                     kTokens, kHeads, kWidth, kPitch, rows);
    launch(stream, Grid{2, 128, 2, 2048 + 16}, shared_boxes, map, static_cast<unsigned short*>(out), fault);
  }
  TestStream stream;
  Memory<unsigned short> tensor, out;
};

void run(int fault) {
  const Boxes boxes(fault);
  cudaStreamSynchronize(boxes.stream.handle);
}

TEST(Copies, BoxesComeToAllBlocksSwizzledWithZerosOutsideOfTheTensor) {
  const Boxes boxes(no_fault);
  const std::vector<unsigned short> got = boxes.out.host();
  for (int block = 0; block < 2; ++block)
    for (int turn = 0; turn < 2; ++turn)
      for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 64; ++column) {
          const int token = 16 * turn + row;
          const bool inside = token < kTokens && 64 + column < kWidth;
          const int at = ((block * 2 + turn) * 16 + row) * 64 + (column / 8 ^ row % 8) * 8 + column % 8;
          ASSERT_EQ(got[static_cast<std::size_t>(at)], inside ? element(1, token, 1, 64 + column) : 0)
              << "block " << block << ", turn " << turn << ", row " << row << ", column " << column;
        }
}

TEST(Copies, ABarrierIsInitialisedAndCountsItsArrivals) {
  EXPECT_REPORT(run(no_barrier),
                "kernel shared_boxes: lane [0-9]+ of block [01] uses a barrier of copies that nobody has initialised "
                "\\(copies.cu:[0-9]+\\)");
  EXPECT_REPORT(run(no_fence),
                "uses a barrier of copies before fence_barrier_init\\(\\) by the lane that initialised it");
  EXPECT_REPORT(run(arrives_again), "arrives at a barrier of copies where all have arrived in this phase");
}

TEST(Copies, ABoxIsReadAfterItsPhaseOnly) {
  EXPECT_REPORT(run(reads_early),
                "lane 0 of block [01] reads bytes .* before an asynchronous copy to them was waited for");
  EXPECT_REPORT(run(warp_does_not_wait), "race in kernel shared_boxes|before an asynchronous copy to them");
  EXPECT_REPORT(run(wrong_phase),
                "waits for the wrong phase of a barrier of copies: it has waited for that one before "
                "\\(copies.cu:[0-9]+\\)");
}

TEST(Copies, ABoxIsOverwrittenAfterAllHaveReadIt) {
  EXPECT_REPORT(run(overwrites),
                "lane 0 of block [01] writes bytes .* by a copy; lane [0-9]+ of block [01] read them|"
                "copies a box to where another one is still to come");
  EXPECT_REPORT(run(warp_is_not_together),
                "lane 0 of block [01] writes bytes .* by a copy; lane [0-9]+ of block [01] "
                "read them, and no barrier orders the two");
}

TEST(Copies, APhaseThatLacksBytesIsADeadlock) {
  EXPECT_REPORT(run(too_few_bytes),
                "deadlock in kernel shared_boxes; 128 lanes of block 0 wait at a barrier of copies, "
                "whose phase lacks 0 arrivals and 2048 bytes");
}

TEST(Copies, ABlockThatOthersSendToHasBegunAndNotEnded) {
  EXPECT_REPORT(
      run(may_not_have_begun),
      "sends to a block of its cluster that may not have begun|uses a barrier of copies that nobody has initialised");
  EXPECT_REPORT(run(ends_early), "sends to a block of its cluster that has ended");
}

TEST(Copies, AMapIsOfTheDriver) {
  Memory<unsigned short> out(4096 + 256);
  EXPECT_REPORT(
      {
        TestStream stream;
        launch(stream, Grid{2, 128, 2, 2048 + 16}, shared_boxes, TileMap{}, static_cast<unsigned short*>(out),
               no_fault);
        cudaStreamSynchronize(stream.handle);
      },
      "copies by what is no map of a tensor");
  // Heads of 12 elements do not begin at multiples of 16 bytes.
  EXPECT_THROW(map_of_heads(reinterpret_cast<const bf16*>(static_cast<unsigned short*>(out)), 1, 4, 3, 12, 40, 8),
               Failure);
}

}  // namespace
}  // namespace llmc
