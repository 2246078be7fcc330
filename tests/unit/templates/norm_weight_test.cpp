// Norms whose weights are not plain: with 1 + w they have the bits of plain weights 1 + w, without weights those of
// ones.
#include "kernels.h"

namespace llmc {

#define LLMC_PLAIN(act)                                                                                                \
  void rms_norm_forward_odd_##act(const act*, const float*, act*, float*);                                             \
  void rms_norm_forward_one_plus_##act(const act*, const float*, act*, float*);                                        \
  void rms_norm_add_##act##_##act##_true(const act*, const float*, const act*, act*, float*, act*);                    \
  void rms_norm_add_##act##_##act##_false(const act*, const float*, const act*, act*, float*, act*);                   \
  void rms_norm_add_one_plus_##act(const act*, const float*, const act*, act*, float*, act*);                          \
  void rms_norm_add_one_plus_alone_##act(const act*, const float*, const act*, act*, float*, act*);                    \
  void qk_norm_rope_plain_##act(const act*, const float*, const float*, act*, float*);                                 \
  void qk_norm_rope_one_plus_##act(const act*, const float*, const float*, act*, float*);                              \
  void qk_norm_rope_ones_##act(const act*, const float*, const float*, act*, float*);                                  \
  void qk_width_norm_rope_plain_##act(const act*, const float*, const float*, act*, float*);                           \
  void qk_width_norm_rope_one_plus_##act(const act*, const float*, const float*, act*, float*);                        \
  void qk_width_norm_rope_ones_##act(const act*, const float*, const float*, act*, float*);                            \
  void qk_norm_rope_backward_plain_##act(act*, const act*, const float*, const float*, const float*, float*);          \
  void qk_norm_rope_backward_one_plus_##act(act*, const act*, const float*, const float*, const float*, float*);       \
  void qk_norm_rope_backward_unweighted_##act(act*, const act*, const float*, const float*, const float*, float*);     \
  void qk_width_norm_rope_backward_plain_##act(act*, const act*, const float*, const float*, const float*, float*);    \
  void qk_width_norm_rope_backward_one_plus_##act(act*, const act*, const float*, const float*, const float*, float*); \
  void qk_width_norm_rope_backward_unweighted_##act(act*, const act*, const float*, const float*, const float*, float*);
LLMC_PLAIN(float)
LLMC_PLAIN(bf16)
#undef LLMC_PLAIN
#define LLMC_BACKWARD(name, act)                                                                                      \
  void rms_norm_backward_##name##_false(const act*, const act*, const float*, const float*, const act*, act*, float*, \
                                        act*);                                                                        \
  void rms_norm_backward_##name##_true(const act*, const act*, const float*, const float*, const act*, act*, float*,  \
                                       act*);
LLMC_BACKWARD(odd_float, float)
LLMC_BACKWARD(odd_bf16, bf16)
LLMC_BACKWARD(one_plus_float, float)
LLMC_BACKWARD(one_plus_bf16, bf16)
LLMC_BACKWARD(unweighted_float, float)
LLMC_BACKWARD(unweighted_bf16, bf16)
#undef LLMC_BACKWARD
#define LLMC_QUANTISED(name)                                                                                 \
  void rms_norm_backward_quantised_##name(const bf16*, const bf16*, const float*, const float*, const bf16*, \
                                          const bf16*, bf16*, float*, e4m3*, float*, bf16*, e4m3*, float*);
LLMC_QUANTISED(e4m3)
LLMC_QUANTISED(one_plus)
LLMC_QUANTISED(unweighted)
#undef LLMC_QUANTISED
void rms_norm_forward_quantised_e4m3(const bf16*, const float*, bf16*, float*, e4m3*, float*);
void rms_norm_forward_quantised_one_plus(const bf16*, const float*, bf16*, float*, e4m3*, float*);

namespace {

constexpr int kRows = 13, kCols = 101, kPitch = 104, kBlocks = 3;
constexpr int kHeadDim = 10, kHeads = 4, kKvHeads = 2, kHeadsPitch = 88, kSequence = 6, kHeadBlocks = 5,
              kWeightPitch = 12;

std::vector<float> one_more(std::vector<float> weights) {
  for (float& w : weights) w += 1.0f;
  return weights;
}

/// Kernels of one type of activations, from the macros above.
template <class T>
struct Kernels;
#define LLMC_KERNELS(act)                                                                                              \
  template <>                                                                                                          \
  struct Kernels<act> {                                                                                                \
    static constexpr auto kForward = rms_norm_forward_odd_##act, kOnePlusForward = rms_norm_forward_one_plus_##act;    \
    static constexpr auto kAdd = rms_norm_add_##act##_##act##_true, kOnePlusAdd = rms_norm_add_one_plus_##act;         \
    static constexpr auto kAddAlone = rms_norm_add_##act##_##act##_false,                                              \
                          kOnePlusAddAlone = rms_norm_add_one_plus_alone_##act;                                        \
    static constexpr auto kBackward = rms_norm_backward_odd_##act##_true, kBare = rms_norm_backward_odd_##act##_false; \
    static constexpr auto kOnePlusBackward = rms_norm_backward_one_plus_##act##_true,                                  \
                          kOnePlusBare = rms_norm_backward_one_plus_##act##_false;                                     \
    static constexpr auto kUnweighted = rms_norm_backward_unweighted_##act##_true,                                     \
                          kUnweightedBare = rms_norm_backward_unweighted_##act##_false;                                \
    static constexpr auto kHeads = qk_norm_rope_plain_##act, kOnePlusHeads = qk_norm_rope_one_plus_##act,              \
                          kOnesHeads = qk_norm_rope_ones_##act;                                                        \
    static constexpr auto kWidth = qk_width_norm_rope_plain_##act, kOnePlusWidth = qk_width_norm_rope_one_plus_##act,  \
                          kOnesWidth = qk_width_norm_rope_ones_##act;                                                  \
    static constexpr auto kHeadsBackward = qk_norm_rope_backward_plain_##act,                                          \
                          kOnePlusHeadsBackward = qk_norm_rope_backward_one_plus_##act,                                \
                          kUnweightedHeads = qk_norm_rope_backward_unweighted_##act;                                   \
    static constexpr auto kWidthBackward = qk_width_norm_rope_backward_plain_##act,                                    \
                          kOnePlusWidthBackward = qk_width_norm_rope_backward_one_plus_##act,                          \
                          kUnweightedWidth = qk_width_norm_rope_backward_unweighted_##act;                             \
  };
LLMC_KERNELS(float)
LLMC_KERNELS(bf16)
#undef LLMC_KERNELS

template <class T>
struct NormWeight : testing::Test {};
using Types = testing::Types<float, bf16>;
TYPED_TEST_SUITE(NormWeight, Types);

TYPED_TEST(NormWeight, OnePlusForward) {
  using Act = TypeParam;
  using K = Kernels<Act>;
  const auto x = random_rows<Act>(kRows, kCols, kPitch, 1, 3.0), stream = random_rows<Act>(kRows, kCols, kPitch, 2);
  const auto weight = random_values<float>(kCols, 3), more = one_more(weight);
  const auto forward = [&](auto kernel, const std::vector<float>& w) {
    std::pair<std::vector<Act>, std::vector<float>> out = {x, std::vector<float>(kRows)};
    run(2, kernel, x.data(), w.data(), out.first.data(), out.second.data());
    return out;
  };
  EXPECT_TRUE(same_bits(forward(K::kOnePlusForward, weight).first, forward(K::kForward, more).first));
  EXPECT_FALSE(same_bits(forward(K::kOnePlusForward, weight).first, forward(K::kForward, weight).first));
  const auto add = [&](auto kernel, const std::vector<float>& w, bool copies) {
    std::vector<Act> sum = x, copy = x;
    std::vector<float> rstd(kRows);
    run(2, kernel, x.data(), w.data(), stream.data(), sum.data(), rstd.data(), copies ? copy.data() : nullptr);
    sum.insert(sum.end(), copy.begin(), copy.end());
    return sum;
  };
  EXPECT_TRUE(same_bits(add(K::kOnePlusAdd, weight, true), add(K::kAdd, more, true)));
  EXPECT_TRUE(same_bits(add(K::kOnePlusAddAlone, weight, false), add(K::kAddAlone, more, false)));
}

/// dx, the partial sums of dweight, and the forward pass's result if the kernel computes it again.
template <class Act, class Kernel>
std::tuple<std::vector<Act>, std::vector<float>, std::vector<Act>> backward(Kernel kernel, const std::vector<float>& w,
                                                                            bool further, bool weighted = true) {
  const auto dy = random_rows<Act>(kRows, kCols, kPitch, 4), x = random_rows<Act>(kRows, kCols, kPitch, 1, 3.0),
             stream = random_rows<Act>(kRows, kCols, kPitch, 5);
  const auto rstd = random_values<float>(kRows, 6);
  std::vector<Act> dx = x, y = x;
  std::vector<float> partial(kBlocks * kCols, 7.0f);
  run(2, kernel, dy.data(), x.data(), w.data(), rstd.data(), further ? stream.data() : nullptr, dx.data(),
      weighted ? partial.data() : nullptr, further ? y.data() : nullptr);
  return {dx, partial, y};
}

TYPED_TEST(NormWeight, Backward) {
  using Act = TypeParam;
  using K = Kernels<Act>;
  const auto weight = random_values<float>(kCols, 3), more = one_more(weight);
  const std::vector<float> ones(kCols, 1.0f);
  const auto whole = backward<Act>(K::kOnePlusBackward, weight, true), plain = backward<Act>(K::kBackward, more, true);
  EXPECT_TRUE(same_bits(std::get<0>(whole), std::get<0>(plain)));
  EXPECT_TRUE(same_bits(std::get<1>(whole), std::get<1>(plain)));
  EXPECT_TRUE(same_bits(std::get<2>(whole), std::get<2>(plain))) << "recomputed";
  EXPECT_TRUE(same_bits(std::get<0>(backward<Act>(K::kOnePlusBare, weight, false)),
                        std::get<0>(backward<Act>(K::kBare, more, false))));
  const auto without = backward<Act>(K::kUnweighted, ones, true, false),
             with_ones = backward<Act>(K::kBackward, ones, true);
  EXPECT_TRUE(same_bits(std::get<0>(without), std::get<0>(with_ones)));
  EXPECT_TRUE(same_bits(std::get<2>(without), std::get<2>(with_ones)));
  EXPECT_TRUE(same_bits(std::get<0>(backward<Act>(K::kUnweightedBare, ones, false, false)),
                        std::get<0>(backward<Act>(K::kBare, ones, false))));
}

/// Rows of heads after the forward kernel.
template <class Act, class Kernel>
std::vector<Act> heads(Kernel kernel, const std::vector<float>& w) {
  const auto in = random_rows<Act>(kRows, 80, kHeadsPitch, 1, 3.0);
  const auto table = random_values<float>(kSequence * kHeadDim, 2);
  std::vector<Act> out = in;
  std::vector<float> rstd(kRows * (kHeads + kKvHeads));
  run(2, kernel, in.data(), w.data(), table.data(), out.data(), rstd.data());
  return out;
}

/// Gradients of rows of heads, and the partial sums of those of the weights.
template <class Act, class Kernel>
std::pair<std::vector<Act>, std::vector<float>> heads_backward(Kernel kernel, const std::vector<float>& w,
                                                               bool weighted = true) {
  const auto in = random_rows<Act>(kRows, 80, kHeadsPitch, 1, 3.0);
  auto gradients = random_rows<Act>(kRows, 80, kHeadsPitch, 3);
  const auto table = random_values<float>(kSequence * kHeadDim, 2);
  const auto rstd = random_values<float>(kRows * (kHeads + kKvHeads), 4);
  std::vector<float> partial(kHeadBlocks * kHeadDim * (kHeads + kKvHeads), 7.0f);
  run(2, kernel, gradients.data(), in.data(), w.data(), table.data(), rstd.data(), weighted ? partial.data() : nullptr);
  return {gradients, partial};
}

TYPED_TEST(NormWeight, OfHeads) {
  using Act = TypeParam;
  using K = Kernels<Act>;
  constexpr int kColumns = kHeadDim * (kHeads + kKvHeads);
  const auto weight = random_values<float>(kColumns, 3), more = one_more(weight);
  const std::vector<float> ones(kColumns, 1.0f);
  EXPECT_TRUE(same_bits(heads<Act>(K::kOnePlusHeads, weight), heads<Act>(K::kHeads, more)));
  EXPECT_TRUE(same_bits(heads<Act>(K::kOnePlusWidth, weight), heads<Act>(K::kWidth, more)));
  EXPECT_TRUE(same_bits(heads<Act>(K::kOnesHeads, ones), heads<Act>(K::kHeads, ones)));
  EXPECT_TRUE(same_bits(heads<Act>(K::kOnesWidth, ones), heads<Act>(K::kWidth, ones)));
  const auto same = [&](auto one_plus, auto unweighted, auto plain) {
    const auto a = heads_backward<Act>(one_plus, weight), b = heads_backward<Act>(plain, more);
    EXPECT_TRUE(same_bits(a.first, b.first));
    EXPECT_TRUE(same_bits(a.second, b.second));
    EXPECT_TRUE(same_bits(heads_backward<Act>(unweighted, ones, false).first, heads_backward<Act>(plain, ones).first));
  };
  same(K::kOnePlusHeadsBackward, K::kUnweightedHeads, K::kHeadsBackward);
  same(K::kOnePlusWidthBackward, K::kUnweightedWidth, K::kWidthBackward);
}

TEST(NormWeightQuantised, HasTheBitsOfPlainWeights) {
  const auto x = random_rows<bf16>(kRows, kCols, kPitch, 1, 3.0), dy = random_rows<bf16>(kRows, kCols, kPitch, 2),
             stream = random_rows<bf16>(kRows, kCols, kPitch, 3);
  const auto weight = random_values<float>(kCols, 4), more = one_more(weight), rstd = random_values<float>(kRows, 5);
  const auto factors = powers(kCols);
  const std::vector<float> ones(kCols, 1.0f);
  const auto forward = [&](auto kernel, const std::vector<float>& w) {
    std::vector<bf16> y = x;
    std::vector<float> of_rows(kRows), scales(kRows);
    std::vector<e4m3> codes(x.size());
    run(2, kernel, x.data(), w.data(), y.data(), of_rows.data(), codes.data(), scales.data());
    return std::tuple(y, codes, scales);
  };
  const auto backward = [&](auto kernel, const std::vector<float>& w, bool weighted) {
    std::vector<bf16> dx = x;
    std::vector<float> partial(kBlocks * kCols), scales(kRows), again(kRows);
    std::vector<e4m3> codes(x.size()), codes_again(x.size());
    run(2, kernel, dy.data(), x.data(), w.data(), rstd.data(), stream.data(), factors.data(), dx.data(),
        weighted ? partial.data() : nullptr, codes.data(), scales.data(), static_cast<bf16*>(nullptr),
        codes_again.data(), again.data());
    return std::tuple(dx, codes, scales, codes_again, again);
  };
  const auto equal = [](const auto& a, const auto& b) {
    std::apply(
        [&](const auto&... x) { std::apply([&](const auto&... y) { EXPECT_TRUE((same_bits(x, y) && ...)); }, b); }, a);
  };
  equal(forward(rms_norm_forward_quantised_one_plus, weight), forward(rms_norm_forward_quantised_e4m3, more));
  equal(backward(rms_norm_backward_quantised_one_plus, weight, true),
        backward(rms_norm_backward_quantised_e4m3, more, true));
  equal(backward(rms_norm_backward_quantised_unweighted, ones, false),
        backward(rms_norm_backward_quantised_e4m3, ones, true));
}

}  // namespace
}  // namespace llmc
