// Compares attention's two passes on a device with the formulas in double, at rows drawn from all batches and heads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "math/attention.h"
#include "numbers.h"

namespace llmc {

/// Rows of documents of a batch: of 1 to 40 tokens, but the second sequence is one document.
struct Documents {
  std::vector<int> begin, end;

  explicit Documents(const AttentionShape& s) : begin(static_cast<std::size_t>(s.batch * s.sequence)), end(begin) {
    std::mt19937 engine(3);
    const int sequence = static_cast<int>(s.sequence);
    for (std::size_t b = 0; b < static_cast<std::size_t>(s.batch); ++b)
      for (int first = 0, last; first < sequence; first = last + 1) {
        last =
            std::min(first + (!s.documents || b == 1 ? sequence : 1 + static_cast<int>(engine() % 40)), sequence) - 1;
        for (int t = first; t <= last; ++t) {
          const std::size_t at = b * static_cast<std::size_t>(sequence) + static_cast<std::size_t>(t);
          begin[at] = first, end[at] = last;
        }
      }
  }
};

/// Of shapes with one: near the scores' spread, so that slopes take all values from 0 to 1.
constexpr double kSoftCap = 1.5;

/// One shape's tensors, copied to the device and back. make(device, pieces) returns an object with forward() and
/// backward() like class Attention. `sharpness`: a power of 2 that scales queries, and so all scores.
struct AttentionRun {
  template <class MakeAttention>
  AttentionRun(const AttentionShape& shape, std::size_t workspace, const MakeAttention& make, float sharpness = 1)
      : AttentionRun(bf16{}, shape, workspace, make, sharpness) {}
  /// With rows of T, which is float, bf16 or fp16.
  template <class T, class MakeAttention>
  AttentionRun(T, const AttentionShape& shape, std::size_t workspace, const MakeAttention& make, float sharpness = 1)
      : s(shape), documents(shape), tokens(s.batch * s.sequence) {
    qkv = normal(static_cast<std::size_t>(tokens * s.qkv_pitch), 1);
    for (std::size_t i = 0; i < qkv.size(); ++i)
      if (static_cast<std::int64_t>(i) % s.qkv_pitch < s.heads * s.head_dim) qkv[i] *= sharpness;
    dout = normal(static_cast<std::size_t>(tokens * s.out_pitch), 2);
    Device device(0, 0);
    Pieces pieces(device, (std::size_t{40} << 20) + workspace + 16 * (qkv.size() + dout.size()));
    const auto attention = make(device, pieces);
    const T *dqkv = pieces.put_as<T>(qkv), *ddout = pieces.put_as<T>(dout);
    T* dout_here = pieces.put_as<T>(std::vector<float>(dout.size()));
    T* gradient = pieces.put_as<T>(std::vector<float>(qkv.size(), 7.0f));
    auto* dlse = pieces.put(std::vector<float>(static_cast<std::size_t>(s.batch * s.heads * s.sequence)));
    std::byte* scratch = pieces.take(workspace);
    attention.forward(device.stream(), dqkv, dout_here, dlse);
    attention.backward(device.stream(), ddout, dout_here, dqkv, dlse, gradient, scratch);
    out = pieces.get(dout_here, dout.size());
    lse = pieces.get(dlse, static_cast<std::size_t>(s.batch * s.heads * s.sequence));
    dq_dk_dv = pieces.get(gradient, qkv.size());
    attention.backward(device.stream(), ddout, dout_here, dqkv, dlse, gradient, scratch);
    again = pieces.get(gradient, qkv.size());
  }

  double q(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const { return row(qkv, b, t, h, d); }
  double k(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return row(qkv, b, t, s.heads + h / group(), d);
  }
  double v(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return row(qkv, b, t, s.heads + s.kv_heads + h / group(), d);
  }
  double o(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return out[static_cast<std::size_t>((b * s.sequence + t) * s.out_pitch + h * s.head_dim + d)];
  }
  double g(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return dout[static_cast<std::size_t>((b * s.sequence + t) * s.out_pitch + h * s.head_dim + d)];
  }
  double row(const std::vector<float>& rows, std::int64_t b, std::int64_t t, std::int64_t head, std::int64_t d) const {
    return rows[static_cast<std::size_t>((b * s.sequence + t) * s.qkv_pitch + head * s.head_dim + d)];
  }
  double lse_at(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return lse[static_cast<std::size_t>((b * s.heads + h) * s.sequence + t)];
  }
  std::int64_t group() const { return s.heads / s.kv_heads; }

  template <class X, class Y>
  double dot(X x, Y y) const {
    double sum = 0;
    for (std::int64_t d = 0; d < s.head_dim; ++d) sum += x(d) * y(d);
    return sum;
  }
  double score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const double score = dot([&](auto d) { return q(b, i, h, d); }, [&](auto d) { return k(b, j, h, d); }) *
                         static_cast<double>(s.scale());
    return s.softcap ? kSoftCap * std::tanh(score / kSoftCap) : score;
  }
  double probability(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return std::exp(score(b, h, i, j) - lse_at(b, h, i));
  }
  /// d loss / d score(i, j) before a soft cap
  double dscore(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const double dp = dot([&](auto d) { return g(b, i, h, d); }, [&](auto d) { return v(b, j, h, d); });
    const double delta = dot([&](auto d) { return g(b, i, h, d); }, [&](auto d) { return o(b, i, h, d); });
    const double capped = s.softcap ? score(b, h, i, j) / kSoftCap : 0;
    return probability(b, h, i, j) * (dp - delta) * (1 - capped * capped) * static_cast<double>(s.scale());
  }

  Mask mask(std::int64_t b) const {
    return s.mask().with_documents(documents.begin.data(), documents.end.data(), static_cast<int>(b));
  }

  AttentionShape s;
  Documents documents;
  std::int64_t tokens;
  std::vector<float> qkv, dout, out, lse, dq_dk_dv, again;
};

struct AttentionBounds {
  double lse, out, dq, dk, dv;
};
/// Scores are fp32 sums of bf16 products. P, dS and every result are rounded to bf16: up to 2^-9 = 0.2 % each. dk and
/// dv of a group are sums of results already rounded.
constexpr AttentionBounds kPlainScores{1e-4, 0.006, 0.01, 0.01, 0.01};
/// For sharpness kSharp: scores exceed 88, beyond which fp32 holds no exponential, so that only differences to a row's
/// largest do. One key has nearly all of a row's weight, so dq and dk are differences of nearly equal terms.
constexpr float kSharp = 32;
constexpr AttentionBounds kLargeScores{5e-4, 0.006, 0.04, 0.04, 0.01};

/// In fp16: up to 2^-12 each, and 2^-25 of small ones.
constexpr AttentionBounds kFp16Scores{1e-4, 0.0008, 0.0013, 0.0013, 0.0013};

/// In fp32: sums of some hundred terms, and an exponential's error of up to 1e-6.
constexpr AttentionBounds kFp32{2e-6, 2e-6, 4e-6, 4e-6, 2e-6};
/// Same for sharpness kSharp: scores of a hundred have a last bit of 1e-5.
constexpr AttentionBounds kLargeFp32{2e-5, 1e-5, 1e-4, 1e-4, 1e-5};

inline void expect_formulas(const AttentionRun& run, int samples, const AttentionBounds& bounds = kPlainScores) {
  const AttentionShape& s = run.s;
  std::mt19937 generator(9);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(n));
  };
  RelativeError out, dq, dk, dv;
  for (int sample = 0; sample < samples; ++sample) {
    const std::int64_t b = below(s.batch), h = below(s.heads), t = sample == 0 ? s.sequence - 1 : below(s.sequence);
    std::vector<double> o(static_cast<std::size_t>(s.head_dim)), q(o), k(o), v(o);
    double sum = 0;
    const Mask mask = run.mask(b);
    for (std::int64_t j = mask.lo(static_cast<int>(t)); j <= t; ++j) {
      const double p = std::exp(run.score(b, h, t, j)), ds = run.dscore(b, h, t, j);
      sum += p;
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        o[static_cast<std::size_t>(d)] += p * run.v(b, j, h, d);
        q[static_cast<std::size_t>(d)] += ds * run.k(b, j, h, d);
      }
    }
    EXPECT_NEAR(run.lse_at(b, h, t), std::log(sum), bounds.lse);
    const std::int64_t kv = below(s.kv_heads);
    for (std::int64_t head = kv * run.group(); head < (kv + 1) * run.group(); ++head)
      for (std::int64_t i = t; i <= mask.hi(static_cast<int>(t)); ++i) {
        const double p = run.probability(b, head, i, t), ds = run.dscore(b, head, i, t);
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          v[static_cast<std::size_t>(d)] += p * run.g(b, i, head, d);
          k[static_cast<std::size_t>(d)] += ds * run.q(b, i, head, d);
        }
      }
    for (std::int64_t d = 0; d < s.head_dim; ++d) {
      const auto at = static_cast<std::size_t>(d);
      out.add(run.o(b, t, h, d), o[at] / sum);
      dq.add(run.row(run.dq_dk_dv, b, t, h, d), q[at]);
      dk.add(run.row(run.dq_dk_dv, b, t, s.heads + kv, d), k[at]);
      dv.add(run.row(run.dq_dk_dv, b, t, s.heads + s.kv_heads + kv, d), v[at]);
    }
  }
  EXPECT_LT(out.value(), bounds.out);
  if (s.window != 1) {  // with one key the softmax is constant, and dq and dk are only rounding errors
    EXPECT_LT(dq.value(), bounds.dq);
    EXPECT_LT(dk.value(), bounds.dk);
  }
  EXPECT_LT(dv.value(), bounds.dv);
}

inline void expect_padding_untouched(const AttentionRun& run) {
  const std::int64_t used = (run.s.heads + 2 * run.s.kv_heads) * run.s.head_dim;
  for (std::int64_t r = 0; r < run.tokens; ++r)
    for (std::int64_t c = used; c < run.s.qkv_pitch; ++c)
      ASSERT_EQ(run.dq_dk_dv[static_cast<std::size_t>(r * run.s.qkv_pitch + c)], 7.0f);
}

}  // namespace llmc
