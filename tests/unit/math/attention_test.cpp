// Compares the CPU attention kernels with sums in double: odd lengths, grouped heads, windows, both types, any number
// of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "device/cpu/arch.h"
#include "device/device.h"
#include "device/mask.h"
#include "device/types.h"

namespace llmc {

#define INSTANCE(name, Act, ...)                           \
  void attention_forward_##name(const Act*, Act*, float*); \
  void attention_backward_##name(const Act*, const Act*, const Act*, const float*, Act*, float*);
#define DOCUMENTS(name, Act, ...)                                                                            \
  void attention_forward_##name(const Act*, Act*, float*, const int*, const int*);                           \
  void attention_backward_##name(const Act*, const Act*, const Act*, const float*, Act*, float*, const int*, \
                                 const int*);
#include "instances.inc"
#undef INSTANCE
#undef DOCUMENTS
#define TILES(name, ...)                                                                                         \
  void attention_forward_tiles_soft_##name(const bf16*, bf16*, float*);                                          \
  void attention_backward_tiles_soft_##name(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*); \
  void attention_forward_tiles_hard_##name(const bf16*, bf16*, float*);                                          \
  void attention_backward_tiles_hard_##name(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*);
#define TILES_OF_DOCUMENTS(name, ...)                                                                           \
  void attention_forward_tiles_soft_##name(const bf16*, bf16*, float*, const int*, const int*);                 \
  void attention_backward_tiles_soft_##name(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*, \
                                            const int*, const int*);                                            \
  void attention_forward_tiles_hard_##name(const bf16*, bf16*, float*, const int*, const int*);                 \
  void attention_backward_tiles_hard_##name(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*, \
                                            const int*, const int*);
#include "tile_instances.inc"
#undef TILES
#undef TILES_OF_DOCUMENTS

namespace {

float widen(float value) { return value; }
float widen(bf16 value) {
  const std::uint32_t word = static_cast<std::uint32_t>(value.bits) << 16;
  float wide;
  std::memcpy(&wide, &word, 4);
  return wide;
}
void put(float& to, float value) { to = value; }
void put(bf16& to, float value) {
  std::uint32_t word;
  std::memcpy(&word, &value, 4);
  to.bits = static_cast<unsigned short>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
}

struct Sizes {
  int batch, sequence, heads, kv_heads, head_dim, pitch, out_pitch, window;
  float scale;
  bool documents = false;
};

/// Rows of documents of a batch: of 1 to 40 tokens; one sequence is one document.
struct Documents {
  std::vector<int> begin, end;

  explicit Documents(const Sizes& s) : begin(std::size_t(s.batch) * s.sequence), end(begin.size()) {
    std::mt19937 engine(3);
    for (int b = 0; b < s.batch; ++b)
      for (int first = 0, last; first < s.sequence; first = last + 1) {
        const int length = !s.documents || b == 1 ? s.sequence : 1 + static_cast<int>(engine() % 40);
        last = std::min(first + length, s.sequence) - 1;
        for (int t = first; t <= last; ++t)
          begin[std::size_t(b) * s.sequence + t] = first, end[std::size_t(b) * s.sequence + t] = last;
      }
  }
};

/// Inputs and outputs of both kernels, and the same in double.
template <class Act>
struct Run {
  Sizes s;
  Documents documents;
  std::vector<Act> qkv, out, dout, dqkv;
  std::vector<float> lse, workspace;
  std::vector<double> true_out, true_lse, true_dqkv;

  /// `sharpness`: factor on q, and so on all scores. `growth`: scales the row of token t by 1 + growth t, so that later
  /// keys have larger scores.
  explicit Run(const Sizes& sizes, float sharpness = 1, float growth = 0) : s(sizes), documents(sizes) {
    const std::size_t rows = std::size_t(s.batch) * s.sequence;
    qkv.resize(rows * s.pitch), out.resize(rows * s.out_pitch), dout.resize(out.size()), dqkv.resize(qkv.size());
    lse.resize(std::size_t(s.batch) * s.heads * s.sequence);
    workspace.resize(2ul * s.batch * s.kv_heads * ((s.sequence + 63) / 64 * 64) * ((s.head_dim + 31) / 32 * 32));
    std::mt19937 engine(7);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < qkv.size(); ++i)
      put(qkv[i], normal(engine) * (static_cast<int>(i % s.pitch) < s.heads * s.head_dim ? sharpness : 1) *
                      (1 + growth * static_cast<float>(i / s.pitch % s.sequence)));
    for (Act& x : dout) put(x, normal(engine));
    // Fills outputs with a marker: elements a kernel must not write keep it, missing writes show it.
    for (Act& x : out) put(x, 77.0f);
    for (Act& x : dqkv) put(x, 77.0f);
    for (float& x : workspace) x = NAN;
  }

  double q(const std::vector<Act>& v, int b, int t, int column) const {
    return widen(v[(std::size_t(b) * s.sequence + t) * s.pitch + column]);
  }

  void reference() {
    const int group = s.heads / s.kv_heads, D = s.head_dim;
    const double scale = s.scale;
    true_out.assign(out.size(), 0), true_lse.assign(lse.size(), 0), true_dqkv.assign(dqkv.size(), 0);
    for (int b = 0; b < s.batch; ++b) {
      for (int h = 0; h < s.heads; ++h) {
        const int k0 = (s.heads + h / group) * D, v0 = k0 + s.kv_heads * D, q0 = h * D;
        for (int t = 0; t < s.sequence; ++t) {
          const std::size_t o = (std::size_t(b) * s.sequence + t) * s.out_pitch + q0;
          const auto gradient = [&](int row, int column) -> double& {
            return true_dqkv[(std::size_t(b) * s.sequence + row) * s.pitch + column];
          };
          std::vector<double> p(t + 1);
          const int lo = std::max(s.window == 0 ? 0 : std::max(0, t - s.window + 1),
                                  documents.begin[std::size_t(b) * s.sequence + t]);
          double sum = 0, delta = 0;
          for (int k = lo; k <= t; ++k) {
            double dot = 0;
            for (int d = 0; d < D; ++d) dot += q(qkv, b, t, q0 + d) * q(qkv, b, k, k0 + d);
            sum += p[k] = std::exp(dot * scale);
          }
          true_lse[(std::size_t(b) * s.heads + h) * s.sequence + t] = std::log(sum);
          for (int k = lo; k <= t; ++k) {
            p[k] /= sum;
            for (int d = 0; d < D; ++d) true_out[o + d] += p[k] * q(qkv, b, k, v0 + d);
          }
          for (int d = 0; d < D; ++d) delta += true_out[o + d] * widen(dout[o + d]);
          for (int k = lo; k <= t; ++k) {
            double dp = 0;
            for (int d = 0; d < D; ++d) dp += widen(dout[o + d]) * q(qkv, b, k, v0 + d);
            const double ds = p[k] * (dp - delta) * scale;
            for (int d = 0; d < D; ++d) {
              gradient(t, q0 + d) += ds * q(qkv, b, k, k0 + d);
              gradient(k, k0 + d) += ds * q(qkv, b, t, q0 + d);
              gradient(k, v0 + d) += p[k] * widen(dout[o + d]);
            }
          }
        }
      }
    }
  }
};

/// Relative L2 error of the columns [first, last) of rows of `pitch`.
template <class Act>
double error(const std::vector<Act>& got, const std::vector<double>& want, int pitch, int first, int last) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const int column = static_cast<int>(i % pitch);
    if (column < first || column >= last) continue;
    difference += std::pow(widen(got[i]) - want[i], 2), size += want[i] * want[i];
  }
  return size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
}

template <class Act, class Forward, class Backward>
void run(Run<Act>& r, Forward forward, Backward backward) {
#pragma omp parallel
  forward(r.qkv.data(), r.out.data(), r.lse.data());
#pragma omp parallel
  backward(r.dout.data(), r.out.data(), r.qkv.data(), r.lse.data(), r.dqkv.data(), r.workspace.data());
}

/// Scores exceed +-88, beyond which fp32 holds no exponentials, so that only differences to a row's largest do.
template <class Act, class Forward, class Backward>
void check_large_scores(const Sizes& s, Forward forward, Backward backward) {
  constexpr float kSharpness = 30;
  Device device(0, 2);
  Run<Act> r(s, kSharpness);
  r.reference();
  run(r, forward, backward);
  const int q = s.heads * s.head_dim, k = q + s.kv_heads * s.head_dim, v = k + s.kv_heads * s.head_dim;
  // Scores reach 160, where fp32 has steps of 1.5e-5: relative errors of exp, averaged over the keys. In most rows one
  // key has nearly all of the weight, so dq and dk are differences of nearly equal terms.
  const bool half = sizeof(Act) == 2;
  EXPECT_LT(error(r.out, r.true_out, s.out_pitch, 0, q), half ? 2.4e-3 : 5e-6);
  EXPECT_LT(error(r.dqkv, r.true_dqkv, s.pitch, k, v), half ? 3.9e-3 : 5e-6) << "dv";
  if (s.sequence > 1 && s.window != 1) {
    EXPECT_LT(error(r.dqkv, r.true_dqkv, s.pitch, 0, q), half ? 2.5e-2 : 2e-5) << "dq";
    EXPECT_LT(error(r.dqkv, r.true_dqkv, s.pitch, q, k), half ? 2.5e-2 : 2e-5) << "dk";
  }
  for (std::size_t i = 0; i < r.lse.size(); ++i) ASSERT_NEAR(r.lse[i], r.true_lse[i], 1e-4) << i;
}

template <class Act, class Forward, class Backward>
void check(const Sizes& s, Forward forward, Backward backward) {
  Device device(0, 2);
  Run<Act> r(s);
  r.reference();
  run(r, forward, backward);
  // fp32: rounding of scores, 2^-24 times their size (up to 10), becomes a relative error of exp, and exp itself is
  // accurate to 2e-7; both average out over the keys. bf16: three roundings of at most 2^-8 (P or dS, out, the result),
  // on average 2^-8 / sqrt(12) to 2^-8 / sqrt(3) of the value each.
  const bool half = sizeof(Act) == 2;
  const double tolerance = half ? 3.9e-3 : 1.5e-6;
  const int q = s.heads * s.head_dim, k = q + s.kv_heads * s.head_dim, v = k + s.kv_heads * s.head_dim;
  EXPECT_LT(error(r.out, r.true_out, s.out_pitch, 0, q), half ? 2.4e-3 : 6e-7);  // out is rounded once less
  EXPECT_LT(error(r.dqkv, r.true_dqkv, s.pitch, k, v), tolerance) << "dv";
  if (s.sequence > 1 && s.window != 1) {  // with one key the softmax is constant, and dq and dk are only rounding
                                          // errors
    EXPECT_LT(error(r.dqkv, r.true_dqkv, s.pitch, 0, q), tolerance) << "dq";
    EXPECT_LT(error(r.dqkv, r.true_dqkv, s.pitch, q, k), tolerance) << "dk";
  }
  for (std::size_t i = 0; i < r.lse.size(); ++i) ASSERT_NEAR(r.lse[i], r.true_lse[i], 3e-6) << i;
  const auto padding_is_whole = [](const std::vector<Act>& rows, int pitch, int cols) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (static_cast<int>(i % pitch) >= cols && widen(rows[i]) != 77.0f) return false;
    return true;
  };
  EXPECT_TRUE(padding_is_whole(r.out, s.out_pitch, q));
  EXPECT_TRUE(padding_is_whole(r.dqkv, s.pitch, v));

  for (const int threads : {1, 3, 5}) {
    Device other(0, threads);
    Run<Act> again(s);
    run(again, forward, backward);
    EXPECT_EQ(std::memcmp(again.out.data(), r.out.data(), r.out.size() * sizeof(Act)), 0) << threads << " threads";
    EXPECT_EQ(std::memcmp(again.dqkv.data(), r.dqkv.data(), r.dqkv.size() * sizeof(Act)), 0) << threads << " threads";
    EXPECT_EQ(again.lse, r.lse) << threads << " threads";
  }
}

/// Gradients of the last document of the first sequence reach no key of another, not even as numbers near 0.
template <class Act, class Forward, class Backward>
void check_documents_apart(const Sizes& s, Forward forward, Backward backward) {
  Device device(0, 2);
  Run<Act> r(s);
  const int begin = r.documents.begin[s.sequence - 1];
  const auto outside = [&](std::size_t row) { return row < std::size_t(begin) || row >= std::size_t(s.sequence); };
  for (std::size_t i = 0; i < r.dout.size(); ++i)
    if (outside(i / s.out_pitch)) put(r.dout[i], 0);
  run(r, forward, backward);
  const std::size_t columns = (s.heads + 2 * s.kv_heads) * s.head_dim;
  for (std::size_t i = 0; i < r.dqkv.size(); ++i)
    if (outside(i / s.pitch) && i % s.pitch < columns) {
      ASSERT_EQ(widen(r.dqkv[i]), 0) << i;
    }
}

/// The kernel with its last two operands.
template <class... Operands>
auto with_documents(void (*kernel)(Operands...), const int* begin, const int* end) {
  return [=](auto... operands) { kernel(operands..., begin, end); };
}

template <class Forward, class Backward>
Run<bf16> ran(const Sizes& s, float growth, Forward forward, Backward backward) {
  Device device(0, 2);
  Run<bf16> r(s, 1, growth);
  run(r, forward, backward);
  return r;
}

void expect_same_bits(const Run<bf16>& a, const Run<bf16>& b) {
  EXPECT_EQ(std::memcmp(a.out.data(), b.out.data(), 2 * a.out.size()), 0) << "out";
  EXPECT_EQ(std::memcmp(a.dqkv.data(), b.dqkv.data(), 2 * a.dqkv.size()), 0) << "dqkv";
  EXPECT_EQ(a.lse, b.lse);
}

/// Checks the variants in tiles: the software model against double, and the instructions against the model bit by bit
/// if this machine has them.
template <class Kernel, class Gradient>
void check_tiles(const Sizes& s, Kernel soft_forward, Gradient soft_backward, Kernel forward, Gradient backward) {
  check<bf16>(s, soft_forward, soft_backward);
  check_large_scores<bf16>(s, soft_forward, soft_backward);
  // Scores that grow by far more than the threshold below which the kernel keeps its maximum
  // (templates/cpu/attention_forward_tiles.cpp).
  Run<bf16> rising = ran(s, 0.05f, soft_forward, soft_backward);
  rising.reference();
  EXPECT_LT(error(rising.out, rising.true_out, s.out_pitch, 0, s.heads * s.head_dim), 2.4e-3);
  for (std::size_t i = 0; i < rising.lse.size(); ++i)
    ASSERT_NEAR(rising.lse[i], rising.true_lse[i], 3e-6 + 1e-6 * std::abs(rising.true_lse[i])) << i;
  if (!cpu_has_tiles()) GTEST_SKIP() << "this processor has no AMX tiles: their model alone was tested";
  require_tiles();
  expect_same_bits(ran(s, 0, forward, backward), ran(s, 0, soft_forward, soft_backward));
  expect_same_bits(ran(s, 0.05f, forward, backward), rising);
}

TEST(Mask, OfDocumentsHidesTheOthers) {
  for (int window : {0, 1, 7, 39}) {
    const Sizes sizes = {3, 40, 1, 1, 8, 24, 8, window, 1, true};
    const Documents documents(sizes);
    for (int b = 0; b < sizes.batch; ++b) {
      const Mask mask = Mask{40, window}.with_documents(documents.begin.data(), documents.end.data(), b);
      const int* begin = documents.begin.data() + b * 40;
      for (int query = 0; query < 40; ++query)
        for (int key = 0; key <= query; ++key) {
          const bool seen = (window == 0 || query - key < window) && begin[key] == begin[query];
          ASSERT_EQ(seen, key >= mask.lo(query));
          ASSERT_EQ(seen, query <= mask.hi(key));
          ASSERT_EQ(seen, query < mask.past(key));
        }
      ASSERT_GE(mask.lo(45), mask.lo(39)) << "rows of a padded tile";
    }
  }
}

TEST(Mask, IsWhatItsWordsSay) {
  for (const int sequence : {1, 2, 9, 40})
    for (int window = 0; window < sequence; ++window) {
      const Mask mask = {sequence, window};
      double scores = 0;
      for (int query = 0; query < sequence; ++query) {
        for (int key = 0; key <= query; ++key) {
          const bool seen = window == 0 || query - key < window;
          ASSERT_EQ(seen, key >= mask.lo(query)) << sequence << ", " << window;
          ASSERT_EQ(seen, query <= mask.hi(key)) << sequence << ", " << window;
          if (seen) scores += key == query ? 0.5 : 1;
        }
        ASSERT_EQ(mask.first_tile(query, 8), mask.lo(query) / 8 * 8);
      }
      ASSERT_EQ(mask.scores(), scores) << sequence << ", " << window;
    }
}

#define TILES(name, ...)                                                                                  \
  TEST(CpuAttentionInTiles, name) {                                                                       \
    check_tiles({__VA_ARGS__}, attention_forward_tiles_soft_##name, attention_backward_tiles_soft_##name, \
                attention_forward_tiles_hard_##name, attention_backward_tiles_hard_##name);               \
  }
#define TILES_OF_DOCUMENTS(name, ...)                                                                   \
  TEST(CpuAttentionInTiles, name) {                                                                     \
    const Sizes sizes = {__VA_ARGS__, true};                                                            \
    const Documents documents(sizes);                                                                   \
    const int *begin = documents.begin.data(), *end = documents.end.data();                             \
    check_documents_apart<bf16>(sizes, with_documents(attention_forward_tiles_soft_##name, begin, end), \
                                with_documents(attention_backward_tiles_soft_##name, begin, end));      \
    check_tiles(sizes, with_documents(attention_forward_tiles_soft_##name, begin, end),                 \
                with_documents(attention_backward_tiles_soft_##name, begin, end),                       \
                with_documents(attention_forward_tiles_hard_##name, begin, end),                        \
                with_documents(attention_backward_tiles_hard_##name, begin, end));                      \
  }
#include "tile_instances.inc"
#undef TILES
#undef TILES_OF_DOCUMENTS

#define DOCUMENTS(name, Act, ...)                                                \
  TEST(CpuAttention, name) {                                                     \
    const Sizes sizes = {__VA_ARGS__, true};                                     \
    const Documents documents(sizes);                                            \
    const int *begin = documents.begin.data(), *end = documents.end.data();      \
    const auto forward = with_documents(attention_forward_##name, begin, end);   \
    const auto backward = with_documents(attention_backward_##name, begin, end); \
    check<Act>(sizes, forward, backward);                                        \
    check_documents_apart<Act>(sizes, forward, backward);                        \
    check_large_scores<Act>(sizes, forward, backward);                           \
  }
#define INSTANCE(name, Act, ...)                                                                               \
  TEST(CpuAttention, name) { check<Act>({__VA_ARGS__}, attention_forward_##name, attention_backward_##name); } \
  TEST(CpuAttention, name##_of_large_scores) {                                                                 \
    check_large_scores<Act>({__VA_ARGS__}, attention_forward_##name, attention_backward_##name);               \
  }
#include "instances.inc"
#undef INSTANCE
#undef DOCUMENTS

}  // namespace
}  // namespace llmc
