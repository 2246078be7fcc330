// QK-norm with RoPE, forward and backward.
#include "kernels.h"

namespace llmc {

#define LLMC_QK_NORM(shape, type)                                                             \
  void qk_norm_rope_##shape##_##type(const type*, const float*, const float*, type*, float*); \
  void qk_norm_rope_backward_##shape##_##type(type*, const type*, const float*, const float*, const float*, float*);
LLMC_QK_NORM(odd, float)
LLMC_QK_NORM(odd, bf16)
LLMC_QK_NORM(even, float)
LLMC_QK_NORM(even, bf16)
LLMC_QK_NORM(unrotated, float)
LLMC_QK_NORM(unrotated, bf16)
#undef LLMC_QK_NORM

namespace {

constexpr int kRows = 13, kSequence = 6, kHeads = 4, kKvHeads = 2, kNormed = kHeads + kKvHeads, kBlocks = 5;
constexpr double kEps = static_cast<double>(1e-5f);

template <class T, int kDim, int kWidth, int kNextWeight, bool kTurns = true>
struct HeadCase {
  using Act = T;
  static constexpr bool kRotates = kTurns;
  static constexpr int kHeadDim = kDim, kPitch = kWidth, kWeightPitch = kNextWeight;
  static constexpr int kHalf = kDim / 2, kCols = (kNormed + kKvHeads) * kDim;
  static_assert(kCols <= kPitch && kDim <= kWeightPitch);
};
template <class C>
struct QkNorm : testing::Test {};
using HeadCases =
    testing::Types<HeadCase<float, 10, 88, 12>, HeadCase<bf16, 10, 88, 12>, HeadCase<float, 32, 256, 32>,
                   HeadCase<bf16, 32, 256, 32>, HeadCase<float, 12, 96, 16, false>, HeadCase<bf16, 12, 96, 16, false>>;
TYPED_TEST_SUITE(QkNorm, HeadCases);

#define LLMC_OF_SHAPE(name)                                                               \
  [] {                                                                                    \
    if constexpr (!TypeParam::kRotates && sizeof(typename TypeParam::Act) == 2)           \
      return &name##_unrotated_bf16;                                                      \
    else if constexpr (!TypeParam::kRotates)                                              \
      return &name##_unrotated_float;                                                     \
    else if constexpr (TypeParam::kHeadDim == 10 && sizeof(typename TypeParam::Act) == 2) \
      return &name##_odd_bf16;                                                            \
    else if constexpr (TypeParam::kHeadDim == 10)                                         \
      return &name##_odd_float;                                                           \
    else if constexpr (sizeof(typename TypeParam::Act) == 2)                              \
      return &name##_even_bf16;                                                           \
    else                                                                                  \
      return &name##_even_float;                                                          \
  }()

template <class C>
std::vector<float> angles() {
  std::vector<float> table(kSequence * C::kHeadDim);
  for (int t = 0; t < kSequence; ++t)
    for (int i = 0; i < C::kHalf; ++i) {
      table[t * C::kHeadDim + i] = static_cast<float>(std::cos(t * std::pow(10.0, -i / 3.0)));
      table[t * C::kHeadDim + C::kHalf + i] = static_cast<float>(std::sin(t * std::pow(10.0, -i / 3.0)));
    }
  return table;
}

/// Both weights, each with its own size, with garbage in the padding.
template <class C>
std::vector<float> weights() {
  auto values = random_rows<float>(2, C::kHeadDim, C::kWeightPitch, 7);
  for (int i = 0; i < C::kHeadDim; ++i) values[C::kWeightPitch + i] += 3.0f;
  return values;
}

/// One head in double precision: pair i is (v[i], v[i + kHalf]).
template <class C>
struct Head {
  double x[C::kHeadDim], weight[C::kHeadDim], cosine[C::kHalf], sine[C::kHalf], rstd;

  Head(const std::vector<typename C::Act>& in, const std::vector<float>& all_weights, const std::vector<float>& table,
       int row, int head) {
    double squares = 0;
    for (int c = 0; c < C::kHeadDim; ++c) {
      x[c] = value(in[row * C::kPitch + head * C::kHeadDim + c]);
      weight[c] = all_weights[(head < kHeads ? 0 : C::kWeightPitch) + c];
      squares += x[c] * x[c];
    }
    rstd = 1 / std::sqrt(squares / C::kHeadDim + kEps);
    for (int i = 0; i < C::kHalf; ++i) {
      cosine[i] = C::kRotates ? table[row % kSequence * C::kHeadDim + i] : 1;
      sine[i] = C::kRotates ? table[row % kSequence * C::kHeadDim + C::kHalf + i] : 0;
    }
  }
  double normed(int c) const { return x[c] * rstd * weight[c]; }
  double turned(int c) const {
    const int i = c % C::kHalf;
    return c < C::kHalf ? normed(i) * cosine[i] - normed(i + C::kHalf) * sine[i]
                        : normed(c) * cosine[i] + normed(i) * sine[i];
  }
  /// Effect of an error of one part in a million in the terms of element c or its partner.
  double size(int c) const { return std::abs(normed(c % C::kHalf)) + std::abs(normed(c % C::kHalf + C::kHalf)); }
};

TYPED_TEST(QkNorm, Forward) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto in = random_rows<Act>(kRows, C::kCols, C::kPitch, 1, 3.0);
  const auto weight = weights<C>();
  const auto table = angles<C>();
  const auto [out, rstd] = on_any_threads(
      [&] { return std::tuple(std::vector<Act>(in.size(), garbage<Act>()), std::vector<float>(kRows * kNormed)); },
      [&](int threads, auto& results) {
        run(threads, LLMC_OF_SHAPE(qk_norm_rope), in.data(), weight.data(), table.data(), std::get<0>(results).data(),
            std::get<1>(results).data());
      });
  for (int r = 0; r < kRows; ++r) {
    for (int h = 0; h < kNormed; ++h) {
      const Head<C> head(in, weight, table, r, h);
      EXPECT_NEAR(rstd[r * kNormed + h], head.rstd, 5e-7 * head.rstd);
      for (int c = 0; c < C::kHeadDim; ++c)
        ASSERT_NEAR(value(out[r * C::kPitch + h * C::kHeadDim + c]), head.turned(c),
                    tolerance<Act>(head.turned(c), head.size(c)))
            << r << " " << h << " " << c;
    }
    for (int c = kNormed * C::kHeadDim; c < C::kPitch; ++c)
      ASSERT_EQ(value(out[r * C::kPitch + c]), c < C::kCols ? value(in[r * C::kPitch + c]) : 0) << "v and padding";
  }
}

TYPED_TEST(QkNorm, Backward) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto in = random_rows<Act>(kRows, C::kCols, C::kPitch, 1, 3.0);
  const auto before = random_rows<Act>(kRows, C::kCols, C::kPitch, 2);
  const auto weight = weights<C>();
  const auto table = angles<C>();
  std::vector<float> rstd(kRows * kNormed);
  std::vector<Act> forward(in.size());
  run(2, LLMC_OF_SHAPE(qk_norm_rope), in.data(), weight.data(), table.data(), forward.data(), rstd.data());
  const auto [after, partial] =
      on_any_threads([&] { return std::tuple(before, std::vector<float>(kBlocks * 2 * C::kWeightPitch, 7.0f)); },
                     [&](int threads, auto& results) {
                       run(threads, LLMC_OF_SHAPE(qk_norm_rope_backward), std::get<0>(results).data(), in.data(),
                           weight.data(), table.data(), rstd.data(), std::get<1>(results).data());
                     });
  std::vector<double> dweight(2 * C::kWeightPitch), sizes(2 * C::kWeightPitch), sums(2 * C::kWeightPitch);
  for (int r = 0; r < kRows; ++r) {
    for (int h = 0; h < kNormed; ++h) {
      const Head<C> head(in, weight, table, r, h);
      const int at = r * C::kPitch + h * C::kHeadDim, part = h < kHeads ? 0 : C::kWeightPitch;
      double back[C::kHeadDim], dot = 0, size = 0;
      for (int i = 0; i < C::kHalf; ++i) {
        const double d1 = value(before[at + i]), d2 = value(before[at + i + C::kHalf]);
        back[i] = d1 * head.cosine[i] + d2 * head.sine[i];
        back[i + C::kHalf] = d2 * head.cosine[i] - d1 * head.sine[i];
      }
      for (int c = 0; c < C::kHeadDim; ++c) {
        dot += back[c] * head.weight[c] * head.x[c];
        size = std::max(size, head.rstd * std::abs(head.weight[c]) * 4);  // gradients rotated back
        dweight[part + c] += back[c] * head.x[c] * head.rstd;
        sizes[part + c] += 4 * std::abs(head.x[c] * head.rstd);
      }
      for (int c = 0; c < C::kHeadDim; ++c) {
        const double exact =
            head.rstd * (back[c] * head.weight[c] - head.x[c] * head.rstd * head.rstd * dot / C::kHeadDim);
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

}  // namespace
}  // namespace llmc
