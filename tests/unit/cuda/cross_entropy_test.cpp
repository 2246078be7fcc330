// Compares cross-entropy with rows shared by the blocks of a cluster with the formula, on a simulated and on a real
// GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/cuda/launch.h"
#include "instance.h"
#include "numbers.h"

namespace llmc {

// Instances from cross_entropy.cmake.
LLMC_DECLARE_INSTANCE(cross_entropy_warp, bf16*, const int*, float*, float*, float*, float*, const StepScalars*)
LLMC_DECLARE_INSTANCE(cross_entropy_again, bf16*, const int*, float*, float*, float*, float*, const StepScalars*)
LLMC_DECLARE_INSTANCE(cross_entropy_block, bf16*, const int*, float*, float*, float*, float*, const StepScalars*)
LLMC_DECLARE_INSTANCE(cross_entropy_pair, float*, const int*, float*, float*, float*, float*, const StepScalars*)
LLMC_DECLARE_INSTANCE(cross_entropy_long, bf16*, const int*, float*, float*, float*, float*, const StepScalars*)
LLMC_DECLARE_INSTANCE(cross_entropy_four, bf16*, const int*, float*, float*, float*, float*, const StepScalars*)
LLMC_DECLARE_INSTANCE(cross_entropy_eight, bf16*, const int*, float*, float*, float*, float*, const StepScalars*)
LLMC_DECLARE_INSTANCE(cross_entropy_few, float*, const int*, float*, float*, float*, float*, const StepScalars*)

namespace {

constexpr float kScale = 1.0f / 37;

template <class Act>
struct CrossEntropy {
  void (*kernel)(Act*, const int*, float*, float*, float*, float*, const StepScalars*);
  int rows, cols, pitch;
  unsigned lanes, cluster;

  struct Result {
    std::vector<float> gradient, losses, lse, entropies, correct;
  };

  std::vector<float> logits() const {
    std::vector<float> values = normal(static_cast<std::size_t>(rows * pitch), 3, 4.0f);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (static_cast<int>(i) % pitch >= cols) values[i] = 0;
    return values;
  }

  /// Targets: the first column, the last, an ignored one, and others.
  std::vector<int> targets() const {
    std::vector<int> all(static_cast<std::size_t>(rows));
    for (int r = 0; r < rows; ++r) all[static_cast<std::size_t>(r)] = static_cast<int>(r * 4801LL % cols);
    all[0] = 0, all[1] = cols - 1, all[2] = -1;
    const std::vector<float> x = logits();
    const auto last = x.begin() + static_cast<std::ptrdiff_t>(rows - 1) * pitch;  // the row's largest
    all.back() = static_cast<int>(std::max_element(last, last + cols) - last);
    return all;
  }

  /// `groups`: groups of blocks, each with its own rows.
  Result run(unsigned groups) const {
    Device device(0, 0);
    Pieces pieces(device, (std::size_t{1} << 20) + static_cast<std::size_t>(rows * pitch) * 4);
    Act* here;
    if constexpr (sizeof(Act) == 2)
      here = pieces.put_bf16(logits());
    else
      here = pieces.put(logits());
    const std::vector<int> wanted = targets();
    auto* target = reinterpret_cast<int*>(pieces.take(wanted.size() * sizeof(int)));
    device.copy_in(reinterpret_cast<std::byte*>(target), wanted.data(), wanted.size() * sizeof(int));
    const std::vector<float> before(wanted.size(), 7.0f);
    float *losses = pieces.put(before), *lse = pieces.put(before), *entropies = pieces.put(before),
          *correct = pieces.put(before);
    StepScalars scalars{};
    scalars.loss_scale = kScale;
    auto* factor = reinterpret_cast<StepScalars*>(pieces.take(sizeof scalars));
    device.copy_in(reinterpret_cast<std::byte*>(factor), &scalars, sizeof scalars);
    launch(device.stream(), Grid{groups * cluster, std::max(lanes, 128u), cluster}, kernel, here, target, losses, lse,
           entropies, correct, factor);
    return {pieces.get(here, static_cast<std::size_t>(rows * pitch)), pieces.get(losses, wanted.size()),
            pieces.get(lse, wanted.size()), pieces.get(entropies, wanted.size()), pieces.get(correct, wanted.size())};
  }

  void check() const {
    const Result result = run(2);  // a cluster then has more than one row
    const std::vector<float> x = logits();
    const std::vector<int> wanted = targets();
    // The difference to the highest logit is up to 34. fp32 rounds it by 1.9e-6, which becomes a relative error of the
    // exponential. exp itself has a relative error of 7.3e-8 times it, plus two times 2 ulp. bf16 keeps eight bits of
    // the result.
    const double relative = sizeof(Act) == 2 ? 1.0 / 256 : 6e-6;
    for (int r = 0; r < rows; ++r) {
      const float* row = &x[static_cast<std::size_t>(r * pitch)];
      const int target = wanted[static_cast<std::size_t>(r)];
      double sum = 0, weighted = 0;
      const double highest = *std::max_element(row, row + cols);
      for (int c = 0; c < cols; ++c) sum += std::exp(row[c] - highest);
      for (int c = 0; c < cols; ++c) weighted += std::exp(row[c] - highest) * row[c];
      const double lse = highest + std::log(sum);
      const double loss = target < 0 ? 0 : lse - row[target];
      const auto at = static_cast<std::size_t>(r);
      ASSERT_NEAR(result.losses[at], loss, 1e-6 * (1 + loss)) << r;
      ASSERT_EQ(result.correct[at], target >= 0 && row[target] == highest) << r;
      if (target < 0) {
        ASSERT_LT(result.lse[at], -1e38f) << r;
        ASSERT_EQ(result.entropies[at], 0) << r;
      } else {
        ASSERT_NEAR(result.lse[at], lse, 1e-6 * (1 + lse)) << r;
        ASSERT_NEAR(result.entropies[at], lse - weighted / sum, 1e-5) << r;
      }
      for (int c = 0; c < pitch; ++c) {
        const double probability = c < cols ? std::exp(row[c] - highest) / sum : 0;
        const double exact = target < 0 || c >= cols ? 0 : (probability - (c == target)) * kScale;
        const double size = std::abs(exact) + 1e-3 * kScale * (c == target);
        ASSERT_NEAR(result.gradient[static_cast<std::size_t>(r * pitch + c)], exact, relative * size) << r << " " << c;
      }
    }
    const Result wide = run(static_cast<unsigned>(rows));  // any grid gives the same bits
    EXPECT_EQ(wide.gradient, result.gradient);
    EXPECT_EQ(wide.losses, result.losses);
    EXPECT_EQ(wide.lse, result.lse);
    EXPECT_EQ(wide.entropies, result.entropies);
    EXPECT_EQ(wide.correct, result.correct);
  }
};

// Numbers as in cross_entropy.cmake.
TEST(ClusteredCrossEntropy, OneWarp) { CrossEntropy<bf16>{cross_entropy_warp, 7, 203, 208, 32, 1}.check(); }
TEST(ClusteredCrossEntropy, RowReadAgain) { CrossEntropy<bf16>{cross_entropy_again, 4, 9001, 9008, 128, 1}.check(); }
TEST(ClusteredCrossEntropy, OneBlock) { CrossEntropy<bf16>{cross_entropy_block, 5, 1003, 1008, 128, 1}.check(); }
TEST(ClusteredCrossEntropy, TwoBlocks) { CrossEntropy<float>{cross_entropy_pair, 5, 4099, 4100, 128, 2}.check(); }
TEST(ClusteredCrossEntropy, TwoBlocksReadTheRowAgain) {
  CrossEntropy<bf16>{cross_entropy_long, 4, 12289, 12296, 128, 2}.check();
}
TEST(ClusteredCrossEntropy, FourBlocks) { CrossEntropy<bf16>{cross_entropy_four, 6, 16384, 16384, 512, 4}.check(); }
TEST(ClusteredCrossEntropy, EightBlocks) { CrossEntropy<bf16>{cross_entropy_eight, 3, 65537, 65544, 512, 8}.check(); }
TEST(ClusteredCrossEntropy, BlocksWithoutColumns) {
  CrossEntropy<float>{cross_entropy_few, 4, 130, 132, 128, 8}.check();
}

}  // namespace
}  // namespace llmc
