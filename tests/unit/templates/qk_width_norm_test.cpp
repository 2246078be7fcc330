// Norms over all columns of q, and of k, with RoPE: forward and backward.
#include "kernels.h"

namespace llmc {

#define LLMC_QK_WIDTH(shape, type)                                                                                \
  void qk_width_norm_rope_##shape##_##type(const type*, const float*, const float*, type*, float*);               \
  void qk_width_norm_rope_backward_##shape##_##type(type*, const type*, const float*, const float*, const float*, \
                                                    float*);
LLMC_QK_WIDTH(odd, float)
LLMC_QK_WIDTH(odd, bf16)
LLMC_QK_WIDTH(even, float)
LLMC_QK_WIDTH(even, bf16)
LLMC_QK_WIDTH(unrotated, float)
LLMC_QK_WIDTH(unrotated, bf16)
#undef LLMC_QK_WIDTH

namespace {

constexpr int kRows = 13, kSequence = 6, kHeads = 4, kKvHeads = 2, kNormed = kHeads + kKvHeads, kBlocks = 5;
constexpr double kEps = static_cast<double>(1e-5f);

template <class T, int kDim, int kWidth, bool kTurns, auto kForwardKernel, auto kBackwardKernel>
struct WidthCase {
  using Act = T;
  static constexpr int kHeadDim = kDim, kPitch = kWidth, kHalf = kDim / 2;
  static constexpr int kCols = (kNormed + kKvHeads) * kDim, kTurned = kNormed * kDim;
  static constexpr bool kRotates = kTurns;
  static constexpr auto kForward = kForwardKernel;
  static constexpr auto kBackward = kBackwardKernel;
};
template <class C>
struct QkWidthNorm : testing::Test {};
using WidthCases = testing::Types<
    WidthCase<float, 10, 88, true, qk_width_norm_rope_odd_float, qk_width_norm_rope_backward_odd_float>,
    WidthCase<bf16, 10, 88, true, qk_width_norm_rope_odd_bf16, qk_width_norm_rope_backward_odd_bf16>,
    WidthCase<float, 32, 256, true, qk_width_norm_rope_even_float, qk_width_norm_rope_backward_even_float>,
    WidthCase<bf16, 32, 256, true, qk_width_norm_rope_even_bf16, qk_width_norm_rope_backward_even_bf16>,
    WidthCase<float, 12, 96, false, qk_width_norm_rope_unrotated_float, qk_width_norm_rope_backward_unrotated_float>,
    WidthCase<bf16, 12, 96, false, qk_width_norm_rope_unrotated_bf16, qk_width_norm_rope_backward_unrotated_bf16>>;
TYPED_TEST_SUITE(QkWidthNorm, WidthCases);

template <class C>
std::vector<float> angles_of() {
  std::vector<float> table(kSequence * C::kHeadDim);
  for (int t = 0; t < kSequence; ++t)
    for (int i = 0; i < C::kHalf; ++i) {
      const double angle = t * std::pow(10.0, -i / 3.0);
      table[t * C::kHeadDim + i] = static_cast<float>(std::cos(angle));
      table[t * C::kHeadDim + C::kHalf + i] = static_cast<float>(std::sin(angle));
    }
  return table;
}

/// One row in double precision: rstd of q and of k, and the angle of each column's pair.
template <class C>
struct WidthRow {
  double rstd[2] = {};
  int row;
  const std::vector<float>& table;

  WidthRow(const std::vector<typename C::Act>& in, const std::vector<float>& angles, int r) : row(r), table(angles) {
    double squares[2] = {};
    for (int c = 0; c < C::kTurned; ++c)
      squares[part(c)] += value(in[r * C::kPitch + c]) * value(in[r * C::kPitch + c]);
    for (int p = 0; p < 2; ++p) rstd[p] = 1 / std::sqrt(squares[p] / ((p ? kKvHeads : kHeads) * C::kHeadDim) + kEps);
  }
  static int part(int c) { return c < kHeads * C::kHeadDim ? 0 : 1; }
  static bool first(int c) { return c % C::kHeadDim < C::kHalf; }
  static int partner(int c) { return first(c) ? c + C::kHalf : c - C::kHalf; }
  double cosine(int c) const { return C::kRotates ? table[row % kSequence * C::kHeadDim + c % C::kHalf] : 1; }
  double sine(int c) const { return C::kRotates ? table[row % kSequence * C::kHeadDim + C::kHalf + c % C::kHalf] : 0; }
  /// Column c of `values` rotated; `back`: by minus the angle.
  double turned(const std::vector<double>& values, int c, bool back) const {
    const double s = sine(c % C::kHeadDim) * (first(c) == back ? 1 : -1);
    return values[c] * cosine(c % C::kHeadDim) + values[partner(c)] * s;
  }
};

TYPED_TEST(QkWidthNorm, Forward) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto in = random_rows<Act>(kRows, C::kCols, C::kPitch, 1, 3.0);
  const auto weight = random_values<float>(C::kTurned, 7);
  const auto table = angles_of<C>();
  const auto [out, rstd] = on_any_threads(
      [&] { return std::tuple(std::vector<Act>(in.size(), garbage<Act>()), std::vector<float>(kRows * 2)); },
      [&](int threads, auto& results) {
        run(threads, C::kForward, in.data(), weight.data(), table.data(), std::get<0>(results).data(),
            std::get<1>(results).data());
      });
  for (int r = 0; r < kRows; ++r) {
    const WidthRow<C> row(in, table, r);
    std::vector<double> normed(C::kTurned);
    for (int c = 0; c < C::kTurned; ++c)
      normed[c] = value(in[r * C::kPitch + c]) * row.rstd[row.part(c)] * static_cast<double>(weight[c]);
    for (int p = 0; p < 2; ++p) EXPECT_NEAR(rstd[r * 2 + p], row.rstd[p], 5e-7 * row.rstd[p]);
    for (int c = 0; c < C::kTurned; ++c) {
      const double exact = row.turned(normed, c, false);
      ASSERT_NEAR(value(out[r * C::kPitch + c]), exact,
                  tolerance<Act>(exact, std::abs(normed[c]) + std::abs(normed[row.partner(c)])))
          << r << " " << c;
    }
    for (int c = C::kTurned; c < C::kPitch; ++c)
      ASSERT_EQ(value(out[r * C::kPitch + c]), c < C::kCols ? value(in[r * C::kPitch + c]) : 0) << "v and padding";
  }
}

TYPED_TEST(QkWidthNorm, Backward) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto in = random_rows<Act>(kRows, C::kCols, C::kPitch, 1, 3.0);
  const auto before = random_rows<Act>(kRows, C::kCols, C::kPitch, 2);
  const auto weight = random_values<float>(C::kTurned, 7);
  const auto table = angles_of<C>();
  std::vector<float> rstd(kRows * 2);
  std::vector<Act> forward(in.size());
  run(2, C::kForward, in.data(), weight.data(), table.data(), forward.data(), rstd.data());
  const auto [after, partial] =
      on_any_threads([&] { return std::tuple(before, std::vector<float>(kBlocks * C::kTurned, 7.0f)); },
                     [&](int threads, auto& results) {
                       run(threads, C::kBackward, std::get<0>(results).data(), in.data(), weight.data(), table.data(),
                           rstd.data(), std::get<1>(results).data());
                     });
  std::vector<double> dweight(C::kTurned), sizes(C::kTurned), sums(C::kTurned);
  for (int r = 0; r < kRows; ++r) {
    const WidthRow<C> row(in, table, r);
    const auto x = [&](int c) { return value(in[r * C::kPitch + c]); };
    std::vector<double> dy(C::kTurned), back(C::kTurned);
    for (int c = 0; c < C::kTurned; ++c) dy[c] = value(before[r * C::kPitch + c]);
    double dot[2] = {}, size[2] = {};
    for (int c = 0; c < C::kTurned; ++c) {
      const int p = row.part(c);
      back[c] = row.turned(dy, c, true);
      dot[p] += back[c] * static_cast<double>(weight[c]) * x(c);
      size[p] = std::max(size[p], row.rstd[p] * std::abs(weight[c]) * 4.0);
      dweight[c] += back[c] * x(c) * row.rstd[p];
      sizes[c] += 4 * std::abs(x(c) * row.rstd[p]);
    }
    for (int c = 0; c < C::kTurned; ++c) {
      const int p = row.part(c);
      const double width = (p ? kKvHeads : kHeads) * C::kHeadDim, s = row.rstd[p];
      const double exact = s * (back[c] * static_cast<double>(weight[c]) - x(c) * s * s * dot[p] / width);
      ASSERT_NEAR(value(after[r * C::kPitch + c]), exact, tolerance<Act>(exact, size[p])) << r << " " << c;
    }
    for (int c = C::kTurned; c < C::kPitch; ++c)
      ASSERT_EQ(value(after[r * C::kPitch + c]), value(before[r * C::kPitch + c])) << "v and padding";
  }
  for (int b = 0; b < kBlocks; ++b)
    for (int c = 0; c < C::kTurned; ++c) sums[c] += partial[b * C::kTurned + c];
  for (int c = 0; c < C::kTurned; ++c) EXPECT_NEAR(sums[c], dweight[c], 1e-6 * sizes[c]) << c;
}

}  // namespace
}  // namespace llmc
