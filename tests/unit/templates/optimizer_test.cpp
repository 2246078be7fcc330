// The optimizer kernels: norms, clipping, AdamW against PyTorch's formula in double, copies.
#include <limits>

#include "kernels.h"

namespace llmc {
namespace {

/// Three parameters of 150, 64 and 7 elements at 256-byte offsets, in chunks of at most 64.
const std::vector<Chunk> kChunks = {
    {0, 0, 64, 0, 0}, {64, 64, 64, 0, 0}, {128, 128, 22, 0, 0}, {192, 192, 64, 1, 1}, {256, 256, 7, 2, 2}};
constexpr int kElements = 320, kChunkCount = 5;

struct Buffers {
  std::vector<float> master, gradient, m, v;
};

Buffers buffers() {
  Buffers b{random_values<float>(kElements, 1), random_values<float>(kElements, 2, 0.1),
            random_values<float>(kElements, 3, 0.01), random_values<float>(kElements, 4, 0.01)};
  for (float& v : b.v) v = v * v;
  return b;
}

/// For the groups in kChunks: the second has no decay, the third another learning rate.
const GroupScalars kGroups[] = {{3e-3f, 0.1f}, {3e-3f, 0}, {1e-3f, 0.1f}};

AdamwScalars scalars_with(double beta1, double beta2) {
  AdamwScalars s{};
  s.updates = 6, s.beta1 = static_cast<float>(beta1), s.beta2 = static_cast<float>(beta2), s.eps = 1e-8f;
  s.bias_correction1[0] = static_cast<float>(1 - std::pow(beta1, 7));
  s.bias_correction2[0] = static_cast<float>(1 - std::pow(beta2, 7));
  return s;
}

/// Of each group.
std::vector<AdamwScalars> scalars() {
  return {scalars_with(0.9, 0.95), scalars_with(0.8, 0.995), scalars_with(0.9, 0.9)};
}
const LionScalars kLionScalars[] = {{0.9f, 0.99f}, {0.8f, 0.95f}, {0.95f, 0.98f}};

template <class Act, bool kFlag, class Kernel>
void check_adamw(Kernel kernel, int begin, int end, bool skipped, bool fresh) {
  Buffers before = buffers();
  if (fresh) std::fill(before.m.begin(), before.m.end(), 0.0f), std::fill(before.v.begin(), before.v.end(), 0.0f);
  const std::vector<AdamwScalars> s = scalars();
  StepResults results{};
  results.updates = s[0].updates + 1;
  results.clip_scale = 0.37f;
  results.skipped = skipped;
  const std::vector<Act> copy_before(kElements, from_float<Act>(5.0f));
  const auto [p, m, v, copy, weights, updates] = on_any_threads(
      [&] {
        return std::tuple(before.master, before.m, before.v, copy_before, std::vector<float>(kChunkCount, 7.0f),
                          std::vector<float>(kChunkCount, 7.0f));
      },
      [&](int threads, auto& out) {
        auto& [p, m, v, copy, weights, updates] = out;
        run(threads, kernel, p.data(), before.gradient.data(), m.data(), v.data(), kFlag ? copy.data() : nullptr,
            kChunks.data(), begin, end, s.data(), kGroups, &results, kFlag ? weights.data() : nullptr,
            kFlag ? updates.data() : nullptr);
      });
  std::vector<char> touched(kElements);
  for (int i = begin; i < end && !skipped; ++i) {
    const Chunk& chunk = kChunks[i];
    double weight = 0, update = 0;
    for (long long e = chunk.offset; e < chunk.offset + chunk.length; ++e) {
      touched[e] = 1;
      const double g = static_cast<double>(before.gradient[e]) * results.clip_scale;
      const AdamwScalars& own = s[static_cast<std::size_t>(chunk.group)];
      const double first = own.beta1 * static_cast<double>(before.m[e]) + (1 - static_cast<double>(own.beta1)) * g;
      const double second = own.beta2 * static_cast<double>(before.v[e]) + (1 - static_cast<double>(own.beta2)) * g * g;
      double w = before.master[e];
      const GroupScalars& group = kGroups[chunk.group];
      w -= static_cast<double>(group.lr) * group.weight_decay * w;
      const double step = static_cast<double>(group.lr) / own.bias_correction1[0] * first /
                          (std::sqrt(second) / std::sqrt(static_cast<double>(own.bias_correction2[0])) + own.eps);
      w -= step;
      // beta m + (1 - beta) g may cancel; 1 - 0.9f is exact to 6e-8 of 1, hence of g.
      ASSERT_NEAR(m[e], first, 2e-7 * (std::abs(before.m[e]) + std::abs(g)));
      ASSERT_NEAR(v[e], second, 3e-7 * (before.v[e] + g * g));
      ASSERT_NEAR(
          p[e], w,
          1e-7 * std::abs(w) + 1e-6 * (std::abs(before.m[e]) + std::abs(g)) / (std::sqrt(second) + 1e-30) * group.lr);
      if (kFlag) {
        ASSERT_EQ(value(copy[e]), value(from_float<Act>(p[e])));
      }
      weight += static_cast<double>(p[e]) * p[e];
      update += (static_cast<double>(p[e]) - before.master[e]) * (static_cast<double>(p[e]) - before.master[e]);
    }
    if (kFlag) {
      EXPECT_NEAR(weights[i], weight, 1e-6 * weight);
      EXPECT_NEAR(updates[i], update, 1e-6 * update);
    }
  }
  for (int e = 0; e < kElements; ++e)
    if (!touched[e]) {
      ASSERT_EQ(p[e], before.master[e]);
      ASSERT_EQ(m[e], before.m[e]);
      ASSERT_EQ(v[e], before.v[e]);
      ASSERT_EQ(value(copy[e]), 5.0);
    }
  for (int i = 0; i < kChunkCount; ++i)
    if (skipped || i < begin || i >= end || !kFlag) {
      ASSERT_EQ(weights[i], 7.0f);
      ASSERT_EQ(updates[i], 7.0f);
    }
}

/// The same elements at the offsets of a shard: from 64 on, moved to the front.
TEST(AdamW, OfSharesIsThatOfTheWhole) {
  const Buffers whole = buffers();
  const std::vector<AdamwScalars> s = scalars();
  StepResults results{};
  results.updates = s[0].updates + 1;
  results.clip_scale = 0.37f;
  std::vector<Chunk> chunks(kChunks.begin() + 1, kChunks.end());
  for (Chunk& chunk : chunks) chunk.state = chunk.offset - 64;
  const int count = static_cast<int>(chunks.size());
  const auto cut = [](const std::vector<float>& values) {
    return std::vector<float>(values.begin() + 64, values.end());
  };
  Buffers all = whole, part{cut(whole.master), cut(whole.gradient), cut(whole.m), cut(whole.v)};
  std::vector<bf16> all_copy(kElements), part_copy(kElements - 64);
  std::vector<float> sums[4];
  for (auto& list : sums) list.resize(kChunkCount);
  run(1, adamw_bf16_true, all.master.data(), all.gradient.data(), all.m.data(), all.v.data(), all_copy.data(),
      kChunks.data() + 1, 0, count, s.data(), kGroups, &results, sums[0].data(), sums[1].data());
  run(1, adamw_share, part.master.data(), part.gradient.data(), part.m.data(), part.v.data(), part_copy.data(),
      chunks.data(), 0, count, s.data(), kGroups, &results, sums[2].data(), sums[3].data());
  EXPECT_TRUE(same_bits(cut(all.master), part.master));
  EXPECT_TRUE(same_bits(cut(all.m), part.m));
  EXPECT_TRUE(same_bits(cut(all.v), part.v));
  EXPECT_TRUE(same_bits(std::vector<bf16>(all_copy.begin() + 64, all_copy.end()), part_copy));
  EXPECT_TRUE(same_bits(sums[0], sums[2]));
  EXPECT_TRUE(same_bits(sums[1], sums[3]));

  std::vector<float> whole_norms(kChunkCount), part_norms(kChunkCount);
  run(1, gradient_norm_small, whole.gradient.data(), kChunks.data() + 1, whole_norms.data(), 0, count);
  run(1, gradient_norm_share, part.gradient.data(), chunks.data(), part_norms.data(), 0, count);
  EXPECT_TRUE(same_bits(whole_norms, part_norms));
  std::vector<bf16> cast(kElements - 64);
  run(1, cast_weights_share, part.master.data(), cast.data(), chunks.data(), 0, count);
  for (const Chunk& chunk : chunks)
    for (long long e = chunk.state; e < chunk.state + chunk.length; ++e)
      ASSERT_EQ(cast[e].bits, from_float<bf16>(part.master[e]).bits) << e;
}

/// If the device has applied an update that the host did not know of, the second correction is used.
TEST(AdamW, TakesTheCorrectionOfItsOwnCount) {
  const std::vector<AdamwScalars> known = scalars();
  std::vector<AdamwScalars> late = known;
  for (AdamwScalars& s : late) {
    s.bias_correction1[1] = s.bias_correction1[0], s.bias_correction2[1] = s.bias_correction2[0];
    s.bias_correction1[0] = s.bias_correction2[0] = 0.5f;
  }
  const auto updated = [](const std::vector<AdamwScalars>& s, unsigned updates) {
    Buffers b = buffers();
    StepResults results{.clip_scale = 1};
    results.updates = updates;
    run(1, adamw_float_false, b.master.data(), b.gradient.data(), b.m.data(), b.v.data(), nullptr, kChunks.data(), 0,
        kChunkCount, s.data(), kGroups, &results, nullptr, nullptr);
    return b.master;
  };
  EXPECT_TRUE(same_bits(updated(known, known[0].updates + 1), updated(late, late[0].updates + 2)));
  EXPECT_FALSE(same_bits(updated(known, known[0].updates + 1), updated(late, late[0].updates + 1)));
}

/// Full buffers and a shard that begins at element 64 follow the same formula.
TEST(Lion, IsItsFormula) {
  StepResults results{.clip_scale = 0.37f};
  Buffers before = buffers();
  before.gradient[5] = before.m[5] = 0;  // no direction, as in padding
  const auto [p, m, copy, weights, updates] = on_any_threads(
      [&] {
        return std::tuple(before.master, before.m, std::vector<bf16>(kElements), std::vector<float>(kChunkCount),
                          std::vector<float>(kChunkCount));
      },
      [&](int threads, auto& out) {
        auto& [p, m, copy, weights, updates] = out;
        run(threads, lion_bf16_true, p.data(), before.gradient.data(), m.data(), copy.data(), kChunks.data(), 0,
            kChunkCount, kLionScalars, kGroups, &results, weights.data(), updates.data());
      });
  for (int i = 0; i < kChunkCount; ++i) {
    const Chunk& chunk = kChunks[i];
    const GroupScalars& group = kGroups[chunk.group];
    double weight = 0, update = 0;
    const LionScalars& s = kLionScalars[chunk.group];
    for (long long e = chunk.offset; e < chunk.offset + chunk.length; ++e) {
      const double g = static_cast<double>(before.gradient[e]) * results.clip_scale, old = before.m[e];
      const double direction = s.beta1 * old + (1 - static_cast<double>(s.beta1)) * g;
      ASSERT_TRUE(e == 5 || std::abs(direction) > 1e-6 * (std::abs(old) + std::abs(g))) << "rounding decides";
      const double sign = (direction > 0) - (direction < 0), w = before.master[e];
      ASSERT_NEAR(p[e], w - group.lr * (sign + group.weight_decay * w), 2e-7 * std::abs(w) + 1e-9) << e;
      ASSERT_NEAR(m[e], s.beta2 * old + (1 - static_cast<double>(s.beta2)) * g, 2e-7 * (std::abs(old) + std::abs(g)));
      ASSERT_EQ(copy[e].bits, from_float<bf16>(p[e]).bits);
      weight += static_cast<double>(p[e]) * p[e];
      update += (static_cast<double>(p[e]) - w) * (static_cast<double>(p[e]) - w);
    }
    EXPECT_NEAR(weights[i], weight, 1e-6 * weight);
    EXPECT_NEAR(updates[i], update, 1e-6 * update);
  }
  const auto cut = [](const auto& values) { return std::decay_t<decltype(values)>(values.begin() + 64, values.end()); };
  std::vector<Chunk> chunks(kChunks.begin() + 1, kChunks.end());
  for (Chunk& chunk : chunks) chunk.state = chunk.offset - 64;
  std::vector<float> share_p = cut(before.master), share_m = cut(before.m), sums(kChunkCount);
  std::vector<bf16> share_copy(kElements - 64);
  run(1, lion_share, share_p.data(), before.gradient.data() + 64, share_m.data(), share_copy.data(), chunks.data(), 0,
      kChunkCount - 1, kLionScalars, kGroups, &results, sums.data(), sums.data());
  EXPECT_TRUE(same_bits(cut(p), share_p) && same_bits(cut(m), share_m) && same_bits(cut(copy), share_copy));

  results.skipped = kNotFinite;
  Buffers skipped = before;
  run(1, lion_float_false, skipped.master.data(), skipped.gradient.data(), skipped.m.data(), nullptr, kChunks.data(), 0,
      kChunkCount, kLionScalars, kGroups, &results, nullptr, nullptr);
  EXPECT_TRUE(same_bits(skipped.master, before.master) && same_bits(skipped.m, before.m));
}

/// Parts of 64 elements, the last of 22; elements after them are kept.
TEST(Wire, RoundsOnceAndAddsInFp32) {
  constexpr int kCount = 150;
  const auto gradients = random_values<float>(kCount, 1), before = random_values<float>(kCount + 8, 2);
  const auto [wire, written, added, moved] =
      on_any_threads([&] { return std::tuple(std::vector<bf16>(kCount + 8, bf16{7}), before, before, before); },
                     [&](int threads, auto& out) {
                       auto& [wire, written, added, moved] = out;
                       run(threads, to_wire_bf16, gradients.data(), wire.data(), kCount);
                       run(threads, from_wire_bf16, wire.data(), written.data(), kCount, false);
                       run(threads, from_wire_bf16, wire.data(), added.data(), kCount, true);
                       run(threads, from_wire_float, gradients.data(), moved.data(), kCount, true);
                     });
  for (int i = 0; i < kCount; ++i) {
    ASSERT_EQ(wire[i].bits, from_float<bf16>(gradients[i]).bits) << i;
    ASSERT_EQ(written[i], to_float(wire[i])) << i;
    ASSERT_EQ(added[i], before[i] + to_float(wire[i])) << i;
    ASSERT_EQ(moved[i], before[i] + gradients[i]) << i;
  }
  for (int i = kCount; i < kCount + 8; ++i) {
    ASSERT_EQ(wire[i].bits, 7);
    ASSERT_EQ(written[i], before[i]);
    ASSERT_EQ(added[i], before[i]);
    ASSERT_EQ(moved[i], before[i]);
  }
}

TEST(AdamW, IsPyTorchsFormula) {
  for (const bool fresh : {false, true}) {
    check_adamw<float, false>(adamw_float_false, 0, kChunkCount, false, fresh);
    check_adamw<float, true>(adamw_float_true, 0, kChunkCount, false, fresh);
    check_adamw<bf16, false>(adamw_bf16_false, 0, kChunkCount, false, fresh);
    check_adamw<bf16, true>(adamw_bf16_true, 0, kChunkCount, false, fresh);
  }
}

TEST(AdamW, TouchesItsChunksOnly) {
  check_adamw<bf16, true>(adamw_bf16_true, 1, 4, false, false);
  check_adamw<bf16, true>(adamw_bf16_true, 2, 2, false, false);
}

/// kGroups: another optimizer's chunks, and what that writes of them, stay as they are.
TEST(AdamW, OfOneGroupTouchesItsChunksOnly) {
  const auto second = +[](float* p, const float* g, float* m, float* v, bf16* copy, const Chunk* chunks, int, int,
                          const AdamwScalars* s, const GroupScalars* groups, const StepResults* results, float* weights,
                          float* updates) {
    adamw_second(p, g, m, v, copy, chunks, 0, kChunkCount, s, groups, results, weights, updates);
  };
  check_adamw<bf16, true>(second, 3, 4, false, false);
}

TEST(Lion, OfOneGroupTouchesItsChunksOnly) {
  const StepResults results{.clip_scale = 0.37f};
  Buffers some = buffers(), all = some;
  std::vector<bf16> some_copy(kElements), all_copy(kElements);
  std::vector<float> weights(kChunkCount, 7.0f), updates = weights, all_weights = weights, all_updates = weights;
  run(1, lion_second, some.master.data(), some.gradient.data(), some.m.data(), some_copy.data(), kChunks.data(), 0,
      kChunkCount, kLionScalars, kGroups, &results, weights.data(), updates.data());
  run(1, lion_bf16_true, all.master.data(), all.gradient.data(), all.m.data(), all_copy.data(), kChunks.data(), 3, 4,
      kLionScalars, kGroups, &results, all_weights.data(), all_updates.data());
  EXPECT_TRUE(same_bits(some.master, all.master) && same_bits(some.m, all.m) && same_bits(some_copy, all_copy));
  EXPECT_TRUE(same_bits(weights, all_weights) && same_bits(updates, all_updates));
}

TEST(AdamW, TouchesNothingInASkippedStep) {
  check_adamw<bf16, true>(adamw_bf16_true, 0, kChunkCount, true, false);
  check_adamw<float, false>(adamw_float_false, 0, kChunkCount, true, false);
}

TEST(AdamW, KeepsPaddingZero) {
  std::vector<float> zero(kElements), p(kElements), m(kElements), v(kElements), weights(kChunkCount),
      updates(kChunkCount);
  std::vector<bf16> copy(kElements, bf16{1});
  const std::vector<AdamwScalars> s = scalars();
  StepResults results{};
  results.updates = s[0].updates + 1;
  results.clip_scale = 1;
  run(2, adamw_bf16_true, p.data(), zero.data(), m.data(), v.data(), copy.data(), kChunks.data(), 0, kChunkCount,
      s.data(), kGroups, &results, weights.data(), updates.data());
  for (const Chunk& chunk : kChunks)
    for (long long e = chunk.offset; e < chunk.offset + chunk.length; ++e) {
      ASSERT_EQ(p[e], 0);
      ASSERT_EQ(value(copy[e]), 0);
    }
}

TEST(GradientNorm, SumsEachChunk) {
  const auto gradients = random_values<float>(kElements, 5);
  const auto [partial] = on_any_threads([&] { return std::tuple(std::vector<float>(kChunkCount, 7.0f)); },
                                        [&](int threads, auto& out) {
                                          run(threads, gradient_norm_small, gradients.data(), kChunks.data(),
                                              std::get<0>(out).data(), 1, kChunkCount);
                                        });
  EXPECT_EQ(partial[0], 7.0f);  // not in [begin, end)
  for (int i = 1; i < kChunkCount; ++i) {
    double exact = 0;
    for (int e = 0; e < kChunks[i].length; ++e)
      exact += std::pow(static_cast<double>(gradients[kChunks[i].offset + e]), 2);
    EXPECT_NEAR(partial[i], exact, 1e-6 * exact);
  }
}

StepResults clip(const std::vector<float>& partial, float clip_norm, double loss,
                 float loss_limit = std::numeric_limits<float>::infinity(),
                 float norm_limit = std::numeric_limits<float>::infinity()) {
  StepScalars s{};
  s.clip_norm = clip_norm;
  s.loss_limit = loss_limit;
  s.grad_norm_limit = norm_limit;
  const auto [results] = on_any_threads(
      [&] {
        StepResults before{};
        before.loss = loss;
        return std::tuple(std::vector<StepResults>{before});
      },
      [&](int threads, auto& out) {
        run(threads, gradient_clip_small, partial.data(), static_cast<int>(partial.size()), &s,
            std::get<0>(out).data());
      });
  return results[0];
}

TEST(GradientClip, ScalesToTheNorm) {
  std::vector<float> partial(300, 0.03f);
  const double norm = std::sqrt(300 * static_cast<double>(0.03f));  // 3
  StepResults r = clip(partial, 1.5f, 2.0);
  EXPECT_NEAR(r.grad_norm, norm, 1e-6);
  EXPECT_NEAR(r.clip_scale, 1.5 / norm, 1e-7);
  EXPECT_EQ(r.skipped, 0);
  EXPECT_EQ(clip(partial, 3.5f, 2.0).clip_scale, 1.0f);
  EXPECT_EQ(clip(partial, 0.0f, 2.0).clip_scale, 1.0f);
  EXPECT_EQ(clip({0.0f, 0.0f}, 1.0f, 2.0).clip_scale, 1.0f);
}

TEST(GradientClip, SkipsWhatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(clip({1.0f, inf}, 1.0f, 2.0).skipped, 1);
  EXPECT_EQ(clip({nan, 1.0f}, 1.0f, 2.0).skipped, 1);
  EXPECT_EQ(clip({1.0f}, 1.0f, std::numeric_limits<double>::quiet_NaN()).skipped, 1);
  EXPECT_EQ(clip({1.0f}, 0.0f, std::numeric_limits<double>::infinity()).skipped, 1);
  EXPECT_EQ(clip({1.0f}, 1.0f, -2.0).skipped, 0);
}

TEST(GradientClip, SkipsWhatIsAboveItsLimits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> partial(300, 0.03f);  // a norm of 3
  EXPECT_EQ(clip(partial, 1.5f, 2.0, 1.9f, 4.0f).skipped, kLossAbove);
  EXPECT_EQ(clip(partial, 1.5f, 2.0, 2.0f, 4.0f).skipped, kApplied) << "at the limit is not above it";
  EXPECT_EQ(clip(partial, 1.5f, 2.0, 2.1f, 2.9f).skipped, kGradNormAbove) << "before clipping";
  EXPECT_EQ(clip(partial, 0.0f, 2.0, 2.1f, 3.1f).skipped, kApplied);
  EXPECT_EQ(clip(partial, 1.5f, 2.0, 1.9f, 2.9f).skipped, kLossAbove) << "the loss is named first";
  EXPECT_EQ(clip({nan}, 1.5f, 2.0, 1.9f, 2.9f).skipped, kNotFinite);
  EXPECT_EQ(clip(partial, 1.5f, 2.0, 1.9f, 4.0f).updates, 0u) << "a skipped update is not counted";
  EXPECT_EQ(clip(partial, 1.5f, 2.0, 2.0f, 4.0f).updates, 1u);
}

struct Scaled {
  StepResults results;
  LossScale scale;
};

Scaled clip_scaled(const std::vector<float>& partial, float clip_norm, double loss, LossScale scale,
                   float norm_limit = std::numeric_limits<float>::infinity()) {
  StepScalars s{};
  s.clip_norm = clip_norm;
  s.loss_limit = std::numeric_limits<float>::infinity();
  s.grad_norm_limit = norm_limit;
  StepResults results{};
  results.loss = loss;
  run(2, gradient_clip_scaled_small, partial.data(), static_cast<int>(partial.size()), &s, &results, &scale);
  return {results, scale};
}

TEST(GradientClipScaled, RemovesTheScale) {
  const std::vector<float> partial(300, 0.03f * 64 * 64);  // a norm of 3 times 64
  const double norm = std::sqrt(300 * static_cast<double>(0.03f));
  const auto [r, scale] = clip_scaled(partial, 1.5f, 2.0, {.factor = 64, .good = 7, .overflows = 2});
  EXPECT_NEAR(r.grad_norm, norm, 1e-6);
  EXPECT_NEAR(r.clip_scale, 1.5 / norm / 64, 1e-7 / 64);
  EXPECT_EQ(r.skipped, kApplied);
  EXPECT_EQ(r.updates, 1u);
  EXPECT_EQ(scale, (LossScale{.factor = 64, .last = 64, .good = 8, .overflows = 2}));
  EXPECT_EQ(clip_scaled(partial, 3.5f, 2.0, {.factor = 64}).results.clip_scale, 1.0f / 64);
  EXPECT_EQ(clip_scaled(partial, 0.0f, 2.0, {.factor = 64}).results.clip_scale, 1.0f / 64);
}

TEST(GradientClipScaled, IsHalvedByAnOverflow) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {inf, nan}) {
    const auto [r, scale] = clip_scaled({1.0f, bad}, 1.0f, 2.0, {.factor = 64, .good = 1999, .overflows = 2});
    EXPECT_EQ(r.skipped, kOverflow);
    EXPECT_EQ(r.updates, 0u);
    EXPECT_EQ(scale, (LossScale{.factor = 32, .last = 64, .good = 0, .overflows = 3}));
  }
  // Neither a loss that is not finite nor a scale of 1 can be helped by a smaller scale.
  const LossScale before{.factor = 64, .good = 5}, least{.factor = 1, .last = 1, .good = 5};
  const Scaled lost = clip_scaled({nan}, 1.0f, nan, before), end = clip_scaled({nan}, 1.0f, 2.0, least);
  EXPECT_EQ(lost.results.skipped, kNotFinite);
  EXPECT_EQ(lost.scale, (LossScale{.factor = 64, .last = 64, .good = 5}));
  EXPECT_EQ(end.results.skipped, kNotFinite);
  EXPECT_EQ(end.scale, least);
  EXPECT_EQ(clip_scaled({nan}, 1.0f, 2.0, {.factor = 2}).scale.factor, 1.0f);
}

TEST(GradientClipScaled, IsDoubledAfterGoodSteps) {
  EXPECT_EQ(clip_scaled({1.0f}, 1.0f, 2.0, {.good = 1998}).scale, (LossScale{.good = 1999}));
  EXPECT_EQ(clip_scaled({1.0f}, 1.0f, 2.0, {.good = 1999}).scale, (LossScale{.factor = 131072}));
  // A step that guards skip has good gradients.
  const auto [r, scale] = clip_scaled({4.0f}, 1.0f, 2.0, {.factor = 1, .good = 1999}, 1.9f);
  EXPECT_EQ(r.skipped, kGradNormAbove);
  EXPECT_EQ(scale, (LossScale{.factor = 2, .last = 1}));
  // No scale is infinite.
  EXPECT_EQ(clip_scaled({1.0f}, 1.0f, 2.0, {.factor = 0x1p127f, .good = 1999}).scale.factor, 0x1p127f);
}

TEST(ParameterNorms, AreOfGradientsWithoutTheirScale) {
  const std::vector<float> gradient = {1, 4, 4, 16, 25}, weight = {9, 0, 0, 1, 2}, update = {0, 0, 1, 0, 49};
  const std::vector<int> first = {0, 3, 4, 5};
  const LossScale scale{.factor = 16, .last = 8};
  std::vector<float> norms(9);
  run(2, parameter_norms_scaled, gradient.data(), weight.data(), update.data(), first.data(), norms.data(), &scale);
  EXPECT_EQ(norms, (std::vector<float>{0.375f, 3, 1, 0.5f, 1, 0, 0.625f, std::sqrt(2.0f), 7}));
}

TEST(ParameterNorms, AddsChunksOfEachParameter) {
  const std::vector<float> gradient = {1, 4, 4, 16, 25}, weight = {9, 0, 0, 1, 2}, update = {0, 0, 1, 0, 49};
  const std::vector<int> first = {0, 3, 4, 5};
  const auto [norms] = on_any_threads([&] { return std::tuple(std::vector<float>(9)); },
                                      [&](int threads, auto& out) {
                                        run(threads, parameter_norms_small, gradient.data(), weight.data(),
                                            update.data(), first.data(), std::get<0>(out).data());
                                      });
  EXPECT_EQ(norms, (std::vector<float>{3, 3, 1, 4, 1, 0, 5, std::sqrt(2.0f), 7}));
}

TEST(CastWeights, RoundsItsChunks) {
  const auto master = random_values<float>(kElements, 6);
  for (const auto& [begin, end] : {std::pair{0, kChunkCount - 1}, std::pair{1, kChunkCount}}) {
    const auto [copy] = on_any_threads([&] { return std::tuple(std::vector<bf16>(kElements, bf16{0x4000})); },
                                       [&, begin = begin, end = end](int threads, auto& out) {
                                         run(threads, cast_weights_small, master.data(), std::get<0>(out).data(),
                                             kChunks.data(), begin, end);
                                       });
    std::vector<bf16> expected(kElements, bf16{0x4000});
    for (int i = begin; i < end; ++i)
      for (long long e = kChunks[i].offset; e < kChunks[i].offset + kChunks[i].length; ++e)
        expected[e] = from_float<bf16>(master[e]);
    EXPECT_TRUE(same_bits(copy, expected)) << "chunks " << begin << " to " << end;
  }
}

}  // namespace
}  // namespace llmc
