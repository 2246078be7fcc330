// SwiGLU and RoPE, forward and backward.
#include <memory>
#include <new>

#include "kernels.h"

namespace llmc {
namespace {

template <class C>
struct Swiglu : testing::Test {};
TYPED_TEST_SUITE(Swiglu, Cases);

double silu(double v) { return v / (1 + std::exp(-v)); }

/// gate_up rows: gate at 0, up at kPitch, garbage in the padding of both.
template <class C>
std::vector<typename C::Act> gate_up() {
  auto values = random_rows<typename C::Act>(2 * C::kRows, C::kCols, C::kPitch, 1, 4.0);
  values[0] = from_float<typename C::Act>(-95.0f);  // past the saturation of exp
  values[1] = from_float<typename C::Act>(95.0f);
  return values;
}

TYPED_TEST(Swiglu, Forward) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto in = gate_up<C>();
  const auto [out] = on_any_threads(
      [&] { return std::tuple(std::vector<Act>(C::kRows * C::kPitch, garbage<Act>())); },
      [&](int threads, auto& out) { run(threads, LLMC_OF(swiglu_forward), in.data(), std::get<0>(out).data()); });
  for (int r = 0; r < C::kRows; ++r)
    for (int c = 0; c < C::kPitch; ++c) {
      const int gate = 2 * r * C::kPitch + c;
      const double exact = c < C::kCols ? silu(value(in[gate])) * value(in[gate + C::kPitch]) : 0;
      // At the smallest gates exp saturates: values such as 95 * 2^-120 are negligible.
      ASSERT_NEAR(value(out[r * C::kPitch + c]), exact, tolerance<Act>(exact, std::abs(exact) + 1e-25))
          << r << " " << c;
    }
}

template <class C, bool kFlag, class Kernel, class Forward>
void check_swiglu(Kernel kernel, Forward forward, bool in_place) {
  using Act = typename C::Act;
  const auto in = gate_up<C>();
  const auto dout = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 2);
  std::vector<Act> expected(dout.size());
  run(1, forward, in.data(), expected.data());
  const auto [d, out] = on_any_threads(
      [&] {
        return std::tuple(in_place ? in : std::vector<Act>(in.size(), garbage<Act>()),
                          std::vector<Act>(dout.size(), garbage<Act>()));
      },
      [&](int threads, auto& buffers) {
        auto& [d, out] = buffers;
        run(threads, kernel, dout.data(), in_place ? d.data() : in.data(), d.data(), kFlag ? out.data() : nullptr);
      });
  for (int r = 0; r < C::kRows; ++r)
    for (int c = 0; c < C::kPitch; ++c) {
      const int gate = 2 * r * C::kPitch + c, up = gate + C::kPitch;
      if (c >= C::kCols) {
        ASSERT_EQ(value(d[gate]), 0) << "padding";
        ASSERT_EQ(value(d[up]), 0) << "padding";
        continue;
      }
      const double x = value(in[gate]), u = value(in[up]), y = value(dout[r * C::kPitch + c]);
      const double s = 1 / (1 + std::exp(-x));
      const double dgate = y * u * s * (1 + x * (1 - s)), dup = y * x * s;
      // 1 + x (1 - s) cancels near its root, by at most a unit of its terms.
      ASSERT_NEAR(value(d[gate]), dgate,
                  tolerance<Act>(dgate, std::abs(y * u * s) * (1 + std::abs(x * (1 - s))) + 1e-25));
      ASSERT_NEAR(value(d[up]), dup, tolerance<Act>(dup, std::abs(dup) + 1e-25));
    }
  if (kFlag) {
    EXPECT_TRUE(same_bits(out, expected)) << "recomputed";
  }
}

TYPED_TEST(Swiglu, Backward) {
  for (const bool in_place : {false, true}) {
    check_swiglu<TypeParam, false>(LLMC_OF_FLAG(swiglu_backward, false), LLMC_OF(swiglu_forward), in_place);
    check_swiglu<TypeParam, true>(LLMC_OF_FLAG(swiglu_backward, true), LLMC_OF(swiglu_forward), in_place);
  }
}

/// Elements with 64-byte alignment.
struct Aligned {
  struct Free {
    void operator()(float* p) const { operator delete[](p, std::align_val_t(64)); }
  };
  explicit Aligned(int count) : data(new(std::align_val_t(64)) float[count]), size(count) {}
  std::unique_ptr<float[], Free> data;
  int size;
};

/// Streaming stores give the same bits as normal ones, tails and padding included.
TEST(SwigluOfManyRows, GoesPastTheCaches) {
  constexpr int kMany = 4112, kFew = 1028, kCols = 250, kPitch = 256, kCount = kMany * kPitch;
  const auto gates = random_rows<float>(2 * kMany, kCols, kPitch, 1),
             dout = random_rows<float>(kMany, kCols, kPitch, 2);
  Aligned out(kCount), again(kCount), d(2 * kCount), few_out(kCount), few_d(2 * kCount);
  for (const Aligned* all : {&out, &again, &d, &few_out, &few_d})
    std::fill_n(all->data.get(), all->size, garbage<float>());
  run(2, swiglu_forward_of_4112, gates.data(), out.data.get());
  run(2, swiglu_backward_of_4112, dout.data(), gates.data(), d.data.get(), again.data.get());
  for (int row = 0; row < kMany; row += kFew) {
    const int at = row * kPitch;
    run(2, swiglu_backward_of_1028, dout.data() + at, gates.data() + 2 * at, few_d.data.get() + 2 * at,
        few_out.data.get() + at);
  }
  EXPECT_EQ(std::memcmp(out.data.get(), few_out.data.get(), kCount * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(again.data.get(), few_out.data.get(), kCount * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(d.data.get(), few_d.data.get(), 2 * kCount * sizeof(float)), 0);
  EXPECT_EQ(out.data[kCount - 1], 0) << "padding";
  run(2, swiglu_forward_of_1028, gates.data(), few_d.data.get());
  EXPECT_EQ(std::memcmp(out.data.get(), few_d.data.get(), kFew * kPitch * sizeof(float)), 0);
}

constexpr int kRows = 12, kSequence = 6, kHeads = 3, kHeadDim = 20, kPitch = 88, kHalf = kHeadDim / 2;

std::vector<float> angles() {
  std::vector<float> table(kSequence * kHeadDim);
  for (int t = 0; t < kSequence; ++t)
    for (int i = 0; i < kHalf; ++i) {
      table[t * kHeadDim + i] = static_cast<float>(std::cos(t * std::pow(10.0, -i / 3.0)));
      table[t * kHeadDim + kHalf + i] = static_cast<float>(std::sin(t * std::pow(10.0, -i / 3.0)));
    }
  return table;
}

template <class Act, class Kernel>
void check_rope(Kernel kernel, double sign) {
  const auto before = random_values<Act>(kRows * kPitch, 1);
  const auto table = angles();
  const auto [after] =
      on_any_threads([&] { return std::tuple(before); },
                     [&](int threads, auto& out) { run(threads, kernel, std::get<0>(out).data(), table.data()); });
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kPitch; ++c) {
      const int at = r * kPitch + c, i = c % kHeadDim % kHalf, t = r % kSequence;
      if (c >= kHeads * kHeadDim) {  // values and padding
        ASSERT_EQ(value(after[at]), value(before[at]));
        continue;
      }
      const double cosine = table[t * kHeadDim + i], sine = sign * table[t * kHeadDim + kHalf + i];
      const double exact = c % kHeadDim < kHalf ? value(before[at]) * cosine - value(before[at + kHalf]) * sine
                                                : value(before[at]) * cosine + value(before[at - kHalf]) * sine;
      ASSERT_NEAR(value(after[at]), exact, tolerance<Act>(exact, 5.0)) << r << " " << c;  // terms of size 5 at most
    }
}

TEST(Rope, TurnsQueriesAndKeysOnly) {
  check_rope<float>(rope_float_false, 1);
  check_rope<bf16>(rope_bf16_false, 1);
}

TEST(Rope, InverseTurnsBack) {
  check_rope<float>(rope_float_true, -1);
  check_rope<bf16>(rope_bf16_true, -1);
  const auto before = random_values<float>(kRows * kPitch, 2);
  const auto table = angles();
  auto there_and_back = before;
  run(2, rope_float_false, there_and_back.data(), table.data());
  EXPECT_FALSE(same_bits(there_and_back, before));
  run(2, rope_float_true, there_and_back.data(), table.data());
  for (std::size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(there_and_back[i], before[i], 1e-6);
}

}  // namespace
}  // namespace llmc
