// RoPE with norms of rotated heads after it: forward and backward.
#include <algorithm>

#include "kernels.h"

namespace llmc {

#define LLMC_ROPE_NORM(shape, type)                                                           \
  void qk_rope_norm_##shape##_##type(const type*, const float*, const float*, type*, float*); \
  void qk_rope_norm_backward_##shape##_##type(type*, const type*, const float*, const float*, const float*, float*);
LLMC_ROPE_NORM(odd, float)
LLMC_ROPE_NORM(odd, bf16)
LLMC_ROPE_NORM(even, float)
LLMC_ROPE_NORM(even, bf16)
LLMC_ROPE_NORM(unrotated, float)
LLMC_ROPE_NORM(unrotated, bf16)
LLMC_ROPE_NORM(one_plus, float)
LLMC_ROPE_NORM(one_plus, bf16)
LLMC_ROPE_NORM(ones, float)
LLMC_ROPE_NORM(ones, bf16)
#undef LLMC_ROPE_NORM

namespace {

constexpr int kRows = 13, kSequence = 6, kHeads = 4, kKvHeads = 2, kNormed = kHeads + kKvHeads, kBlocks = 5;
constexpr double kEps = static_cast<double>(1e-5f);

template <class T, int kDim, int kWidth, int kNextWeight, bool kTurns, auto kForwardKernel, auto kBackwardKernel>
struct TurnedCase {
  using Act = T;
  static constexpr bool kRotates = kTurns;
  static constexpr int kHeadDim = kDim, kPitch = kWidth, kWeightPitch = kNextWeight;
  static constexpr int kHalf = kDim / 2, kCols = (kNormed + kKvHeads) * kDim;
  static constexpr auto kForward = kForwardKernel;
  static constexpr auto kBackward = kBackwardKernel;
};
template <class C>
struct QkRopeNorm : testing::Test {};
using TurnedCases = testing::Types<
    TurnedCase<float, 10, 88, 12, true, qk_rope_norm_odd_float, qk_rope_norm_backward_odd_float>,
    TurnedCase<bf16, 10, 88, 12, true, qk_rope_norm_odd_bf16, qk_rope_norm_backward_odd_bf16>,
    TurnedCase<float, 32, 256, 32, true, qk_rope_norm_even_float, qk_rope_norm_backward_even_float>,
    TurnedCase<bf16, 32, 256, 32, true, qk_rope_norm_even_bf16, qk_rope_norm_backward_even_bf16>,
    TurnedCase<float, 12, 96, 16, false, qk_rope_norm_unrotated_float, qk_rope_norm_backward_unrotated_float>,
    TurnedCase<bf16, 12, 96, 16, false, qk_rope_norm_unrotated_bf16, qk_rope_norm_backward_unrotated_bf16>>;
TYPED_TEST_SUITE(QkRopeNorm, TurnedCases);

/// With a factor as yarn has one: a norm of what is rotated removes it, a norm before the rotation would not.
template <class C>
std::vector<float> scaled_angles() {
  std::vector<float> table(kSequence * C::kHeadDim);
  for (int t = 0; t < kSequence; ++t)
    for (int i = 0; i < C::kHalf; ++i) {
      const double angle = t * std::pow(10.0, -i / 3.0);
      table[t * C::kHeadDim + i] = static_cast<float>(1.25 * std::cos(angle));
      table[t * C::kHeadDim + C::kHalf + i] = static_cast<float>(1.25 * std::sin(angle));
    }
  return table;
}

/// Both weights, each with its own size, with garbage in the padding.
template <class C>
std::vector<float> two_weights() {
  auto values = random_rows<float>(2, C::kHeadDim, C::kWeightPitch, 7);
  for (int i = 0; i < C::kHeadDim; ++i) values[C::kWeightPitch + i] += 3.0f;
  return values;
}

/// One rotated head in double precision: pair i is (v[i], v[i + kHalf]).
template <class C>
struct TurnedHead {
  double turned[C::kHeadDim], weight[C::kHeadDim], cosine[C::kHalf], sine[C::kHalf], rstd, most = 0;

  TurnedHead(const std::vector<typename C::Act>& in, const std::vector<float>& weights, const std::vector<float>& table,
             int row, int head) {
    double squares = 0;
    for (int i = 0; i < C::kHalf; ++i) {
      const float* angles = table.data() + row % kSequence * C::kHeadDim;
      cosine[i] = C::kRotates ? angles[i] : 1;
      sine[i] = C::kRotates ? angles[C::kHalf + i] : 0;
      const auto* x = in.data() + row * C::kPitch + head * C::kHeadDim;
      const double x1 = value(x[i]), x2 = value(x[i + C::kHalf]);
      turned[i] = x1 * cosine[i] - x2 * sine[i];
      turned[i + C::kHalf] = x2 * cosine[i] + x1 * sine[i];
      squares += turned[i] * turned[i] + turned[i + C::kHalf] * turned[i + C::kHalf];
      most = std::max({most, std::abs(x1), std::abs(x2)});
    }
    for (int c = 0; c < C::kHeadDim; ++c) weight[c] = weights[(head < kHeads ? 0 : C::kWeightPitch) + c];
    rstd = 1 / std::sqrt(squares / C::kHeadDim + kEps);
  }
};

TYPED_TEST(QkRopeNorm, Forward) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto in = random_rows<Act>(kRows, C::kCols, C::kPitch, 1, 3.0);
  const auto weight = two_weights<C>();
  const auto table = scaled_angles<C>();
  const auto [out, rstd] = on_any_threads(
      [&] { return std::tuple(std::vector<Act>(in.size(), garbage<Act>()), std::vector<float>(kRows * kNormed)); },
      [&](int threads, auto& results) {
        run(threads, C::kForward, in.data(), weight.data(), table.data(), std::get<0>(results).data(),
            std::get<1>(results).data());
      });
  for (int r = 0; r < kRows; ++r) {
    for (int h = 0; h < kNormed; ++h) {
      const TurnedHead<C> head(in, weight, table, r, h);
      EXPECT_NEAR(rstd[r * kNormed + h], head.rstd, 5e-7 * head.rstd);
      for (int c = 0; c < C::kHeadDim; ++c) {
        const double exact = head.turned[c] * head.rstd * head.weight[c];
        ASSERT_NEAR(value(out[r * C::kPitch + h * C::kHeadDim + c]), exact,
                    tolerance<Act>(exact, 2.5 * head.most * head.rstd * std::abs(head.weight[c])))
            << r << " " << h << " " << c;
      }
    }
    for (int c = kNormed * C::kHeadDim; c < C::kPitch; ++c)
      ASSERT_EQ(value(out[r * C::kPitch + c]), c < C::kCols ? value(in[r * C::kPitch + c]) : 0) << "v and padding";
  }
}

TYPED_TEST(QkRopeNorm, Backward) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto in = random_rows<Act>(kRows, C::kCols, C::kPitch, 1, 3.0);
  const auto before = random_rows<Act>(kRows, C::kCols, C::kPitch, 2);
  const auto weight = two_weights<C>();
  const auto table = scaled_angles<C>();
  std::vector<float> rstd(kRows * kNormed);
  std::vector<Act> forward(in.size());
  run(2, C::kForward, in.data(), weight.data(), table.data(), forward.data(), rstd.data());
  const auto [after, partial] =
      on_any_threads([&] { return std::tuple(before, std::vector<float>(kBlocks * 2 * C::kWeightPitch, 7.0f)); },
                     [&](int threads, auto& results) {
                       run(threads, C::kBackward, std::get<0>(results).data(), in.data(), weight.data(), table.data(),
                           rstd.data(), std::get<1>(results).data());
                     });
  std::vector<double> dweight(2 * C::kWeightPitch), sizes(2 * C::kWeightPitch), sums(2 * C::kWeightPitch);
  for (int r = 0; r < kRows; ++r) {
    for (int h = 0; h < kNormed; ++h) {
      const TurnedHead<C> head(in, weight, table, r, h);
      const int at = r * C::kPitch + h * C::kHeadDim, part = h < kHeads ? 0 : C::kWeightPitch;
      double dturned[C::kHeadDim], mean = 0, size = 0;
      for (int c = 0; c < C::kHeadDim; ++c) {
        const double dy = value(before[at + c]);
        mean += dy * head.weight[c] * head.turned[c] / C::kHeadDim;
        size = std::max(size, head.rstd * std::abs(head.weight[c]) * 5);  // gradients rotated back, with the factor
        dweight[part + c] += dy * head.turned[c] * head.rstd;
        sizes[part + c] += 5 * std::abs(head.most * head.rstd);
      }
      for (int c = 0; c < C::kHeadDim; ++c)
        dturned[c] =
            head.rstd * (value(before[at + c]) * head.weight[c] - head.turned[c] * head.rstd * head.rstd * mean);
      for (int c = 0; c < C::kHeadDim; ++c) {
        const int i = c % C::kHalf;
        const double exact = c < C::kHalf ? dturned[i] * head.cosine[i] + dturned[i + C::kHalf] * head.sine[i]
                                          : dturned[c] * head.cosine[i] - dturned[i] * head.sine[i];
        ASSERT_NEAR(value(after[at + c]), exact, tolerance<Act>(exact, size)) << r << " " << h << " " << c;
      }
    }
    for (int c = kNormed * C::kHeadDim; c < C::kPitch; ++c)
      ASSERT_EQ(value(after[r * C::kPitch + c]), value(before[r * C::kPitch + c])) << "v and padding";
  }
  for (int b = 0; b < kBlocks; ++b)
    for (int c = 0; c < 2 * C::kWeightPitch; ++c) sums[c] += partial[b * 2 * C::kWeightPitch + c];
  for (int c = 0; c < 2 * C::kWeightPitch; ++c) EXPECT_NEAR(sums[c], dweight[c], 1e-6 * sizes[c]) << c;
}

/// Results of kernels of 10 columns a head: of the forward pass, and the gradients of it.
template <class Act>
std::pair<std::vector<Act>, std::vector<Act>> both_ways(auto forward, auto backward, const std::vector<float>& weight) {
  using C = TurnedCase<Act, 10, 88, 12, true, nullptr, nullptr>;
  const auto in = random_rows<Act>(kRows, C::kCols, C::kPitch, 1, 3.0);
  const auto table = scaled_angles<C>();
  auto gradients = random_rows<Act>(kRows, C::kCols, C::kPitch, 2);
  std::vector<Act> out(in.size());
  std::vector<float> rstd(kRows * kNormed), partial(kBlocks * 2 * C::kWeightPitch);
  run(2, forward, in.data(), weight.data(), table.data(), out.data(), rstd.data());
  run(2, backward, gradients.data(), in.data(), weight.data(), table.data(), rstd.data(), partial.data());
  return {out, gradients};
}

TEST(QkRopeNormWeight, HasTheBitsOfPlainWeights) {
  const std::vector<float> weight = random_values<float>(24, 3), ones(24, 1.0f);
  std::vector<float> more = weight;
  for (float& w : more) w += 1.0f;
  const auto compare = [](const auto& these, const auto& others) {
    EXPECT_TRUE(same_bits(these.first, others.first));
    EXPECT_TRUE(same_bits(these.second, others.second));
  };
  compare(both_ways<float>(qk_rope_norm_one_plus_float, qk_rope_norm_backward_one_plus_float, weight),
          both_ways<float>(qk_rope_norm_odd_float, qk_rope_norm_backward_odd_float, more));
  compare(both_ways<bf16>(qk_rope_norm_one_plus_bf16, qk_rope_norm_backward_one_plus_bf16, weight),
          both_ways<bf16>(qk_rope_norm_odd_bf16, qk_rope_norm_backward_odd_bf16, more));
  compare(both_ways<float>(qk_rope_norm_ones_float, qk_rope_norm_backward_ones_float, ones),
          both_ways<float>(qk_rope_norm_odd_float, qk_rope_norm_backward_odd_float, ones));
  compare(both_ways<bf16>(qk_rope_norm_ones_bf16, qk_rope_norm_backward_ones_bf16, ones),
          both_ways<bf16>(qk_rope_norm_odd_bf16, qk_rope_norm_backward_odd_bf16, ones));
}

}  // namespace
}  // namespace llmc
