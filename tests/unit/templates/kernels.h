// Kernel instances under test, and shared parts of kernel tests: random data, runs on several numbers of threads.
#pragma once

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "device/cpu/launch.h"
#include "device/math.h"
#include "device/types.h"

namespace llmc {

template <class T>
double value(T v) {
  return to_float(v);
}

/// Allowed distance of a result in T from the exact one. `fp32`: of the arithmetic, relative to `scale`. Plus half a
/// unit in the last place of T (2^-8 for bf16, slightly more because the fp32 result may lie on the other side of a
/// tie).
template <class T>
double tolerance(double exact, double scale, double fp32 = 1e-6) {
  return fp32 * scale + (sizeof(T) == 2 ? std::abs(exact) * (1.0 / 256) * 1.01 : 0);
}

template <class T>
std::vector<T> random_values(std::size_t count, unsigned seed, double spread = 1.0) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, static_cast<float>(spread));
  std::vector<T> values(count);
  for (T& v : values) v = from_float<T>(normal(engine));
  return values;
}

/// Powers of two for columns.
inline std::vector<bf16> powers(int count) {
  std::vector<bf16> factors(static_cast<std::size_t>(count));
  for (int c = 0; c < count; ++c) factors[c] = from_float<bf16>(std::ldexp(1.0f, c % 9 - 6));
  return factors;
}

/// Content of padding before a kernel runs: it must have no effect and must be overwritten.
template <class T>
T garbage() {
  return from_float<T>(1e6f);
}

template <class T>
std::vector<T> random_rows(int rows, int cols, int pitch, unsigned seed, double spread = 1.0) {
  std::vector<T> values = random_values<T>(static_cast<std::size_t>(rows) * pitch, seed, spread);
  for (int r = 0; r < rows; ++r)
    for (int c = cols; c < pitch; ++c) values[r * pitch + c] = garbage<T>();
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Compares values instead of bytes, because there are several NaNs.
inline bool same_bits(const std::vector<StepResults>& a, const std::vector<StepResults>& b) {
  const auto all = [](const StepResults& r) {
    return std::tuple(r.loss, r.top1, r.lse, r.entropy, r.lse_max, r.grad_norm, r.clip_scale, r.skipped, r.updates);
  };
  if (std::isnan(a[0].loss) || std::isnan(a[0].grad_norm)) return a[0].skipped == b[0].skipped;
  return a.size() == 1 && b.size() == 1 && all(a[0]) == all(b[0]);
}

/// Runs a kernel on `threads` threads.
template <class... Parameters, class... Arguments>
void run(int threads, void (*kernel)(Parameters...), Arguments... arguments) {
  omp_set_num_threads(threads);
  Stream stream;
  launch(stream, kernel, arguments...);
}

/// Runs a kernel via `run(threads, buffers)` on the buffers of `make()`: all numbers of threads must give the same
/// bits. Returns the buffers after one of the runs.
template <class Make, class Run>
auto on_any_threads(Make make, Run run) {
  auto first = make();
  run(1, first);
  for (const int threads : {2, 3, 7}) {
    auto other = make();
    run(threads, other);
    std::apply(
        [&](auto&... a) { std::apply([&](auto&... b) { EXPECT_TRUE((same_bits(a, b) && ...)) << threads; }, other); },
        first);
  }
  return first;
}

#define LLMC_INSTANCES(name, arguments)              \
  LLMC_INSTANCE(name##_odd_float, float, arguments)  \
  LLMC_INSTANCE(name##_odd_bf16, bf16, arguments)    \
  LLMC_INSTANCE(name##_wide_float, float, arguments) \
  LLMC_INSTANCE(name##_wide_bf16, bf16, arguments)
#define LLMC_FLAGGED(name, arguments)                      \
  LLMC_INSTANCE(name##_odd_float_false, float, arguments)  \
  LLMC_INSTANCE(name##_odd_bf16_false, bf16, arguments)    \
  LLMC_INSTANCE(name##_wide_float_false, float, arguments) \
  LLMC_INSTANCE(name##_wide_bf16_false, bf16, arguments)   \
  LLMC_INSTANCE(name##_odd_float_true, float, arguments)   \
  LLMC_INSTANCE(name##_odd_bf16_true, bf16, arguments)     \
  LLMC_INSTANCE(name##_wide_float_true, float, arguments)  \
  LLMC_INSTANCE(name##_wide_bf16_true, bf16, arguments)
#define LLMC_BOTH(name, arguments)                    \
  LLMC_INSTANCE(name##_float_false, float, arguments) \
  LLMC_INSTANCE(name##_bf16_false, bf16, arguments)   \
  LLMC_INSTANCE(name##_float_true, float, arguments)  \
  LLMC_INSTANCE(name##_bf16_true, bf16, arguments)
#define LLMC_INSTANCE(name, type, arguments) \
  namespace of_##name {                      \
    using Act = type;                        \
    using Signature = void arguments;        \
  }                                          \
  of_##name::Signature name;

LLMC_INSTANCES(rms_norm_forward, (const Act*, const float*, Act*, float*))
LLMC_FLAGGED(rms_norm_backward, (const Act*, const Act*, const float*, const float*, const Act*, Act*, float*, Act*))
LLMC_INSTANCES(column_sum, (const Act*, float*))
LLMC_INSTANCES(swiglu_forward, (const Act*, Act*))
LLMC_FLAGGED(swiglu_backward, (const Act*, const Act*, Act*, Act*))
LLMC_INSTANCES(swiglu_forward_gelu, (const Act*, Act*))
LLMC_INSTANCES(swiglu_forward_relu2, (const Act*, Act*))
LLMC_INSTANCES(activation_forward_silu, (const Act*, Act*))
LLMC_INSTANCES(activation_forward_gelu, (const Act*, Act*))
LLMC_INSTANCES(activation_forward_relu2, (const Act*, Act*))
LLMC_FLAGGED(swiglu_backward_gelu, (const Act*, const Act*, Act*, Act*))
LLMC_FLAGGED(swiglu_backward_relu2, (const Act*, const Act*, Act*, Act*))
LLMC_FLAGGED(activation_backward_silu, (const Act*, const Act*, Act*, Act*))
LLMC_FLAGGED(activation_backward_gelu, (const Act*, const Act*, Act*, Act*))
LLMC_FLAGGED(activation_backward_relu2, (const Act*, const Act*, Act*, Act*))
LLMC_FLAGGED(cross_entropy, (Act*, const int*, float*, float*, float*, float*, const StepScalars*))
LLMC_INSTANCES(cross_entropy_z, (Act*, const int*, float*, float*, float*, float*, const StepScalars*))
LLMC_INSTANCES(embedding_forward, (const int*, const Act*, Act*))
LLMC_INSTANCES(gather_rows, (const Act*, const int*, Act*))
LLMC_INSTANCES(embedding_backward, (const Act*, const int*, const int*, const int*, const int*, float*))
LLMC_BOTH(rope, (Act*, const float*))
LLMC_BOTH(adamw, (float*, const float*, float*, float*, Act*, const Chunk*, int, int, const AdamwScalars*,
                  const GroupScalars*, const StepResults*, float*, float*))
void adamw_share(float*, const float*, float*, float*, bf16*, const Chunk*, int, int, const AdamwScalars*,
                 const GroupScalars*, const StepResults*, float*, float*);
LLMC_BOTH(lion, (float*, const float*, float*, Act*, const Chunk*, int, int, const LionScalars*, const GroupScalars*,
                 const StepResults*, float*, float*))
void lion_share(float*, const float*, float*, bf16*, const Chunk*, int, int, const LionScalars*, const GroupScalars*,
                const StepResults*, float*, float*);
#define LLMC_ADAMW_INT8(name)                                                                                          \
  void adamw_int8_##name(float*, rest16*, ties8*, const float*, dynamic8*, float*, udynamic8*, float*, bf16*,          \
                         const Chunk*, int, int, const AdamwScalars*, const GroupScalars*, const StepResults*, float*, \
                         float*);
LLMC_ADAMW_INT8(copy)
LLMC_ADAMW_INT8(plain)
LLMC_ADAMW_INT8(second)
LLMC_ADAMW_INT8(share)
LLMC_ADAMW_INT8(first)
LLMC_ADAMW_INT8(split)
#undef LLMC_ADAMW_INT8
void adamw_first(float*, const float*, float*, float*, bf16*, const Chunk*, int, int, const AdamwScalars*,
                 const GroupScalars*, const StepResults*, float*, float*);
void lion_first(float*, const float*, float*, bf16*, const Chunk*, int, int, const LionScalars*, const GroupScalars*,
                const StepResults*, float*, float*);
void adamw_split_first(bf16*, rest16*, ties8*, const float*, float*, float*, const Chunk*, int, int,
                       const AdamwScalars*, const GroupScalars*, const StepResults*, float*, float*);
void lion_split_first(bf16*, rest16*, ties8*, const float*, float*, const Chunk*, int, int, const LionScalars*,
                      const GroupScalars*, const StepResults*, float*, float*);
void split_masters_small(const float*, float*, bf16*, rest16*, ties8*, const Chunk*, int, int);
void split_masters_share(const float*, float*, bf16*, rest16*, ties8*, const Chunk*, int, int);
void join_masters_small(const float*, const bf16*, const rest16*, const ties8*, float*, const Chunk*, int, int);
void join_masters_share(const float*, const bf16*, const rest16*, const ties8*, float*, const Chunk*, int, int);
void embedding_split_odd(const int*, const bf16*, const rest16*, const ties8*, float*);
void embedding_split_scaled(const int*, const bf16*, const rest16*, const ties8*, float*);
void adamw_second(float*, const float*, float*, float*, bf16*, const Chunk*, int, int, const AdamwScalars*,
                  const GroupScalars*, const StepResults*, float*, float*);
void lion_second(float*, const float*, float*, bf16*, const Chunk*, int, int, const LionScalars*, const GroupScalars*,
                 const StepResults*, float*, float*);
void muon_momentum_whole(float*, float*, const Chunk*, int, int, const MuonScalars*, const StepResults*);
void muon_momentum_second(float*, float*, const Chunk*, int, int, const MuonScalars*, const StepResults*);
void muon_momentum_share(float*, float*, const Chunk*, int, int, const MuonScalars*, const StepResults*);
#define LLMC_MUON(name)                                                                                      \
  void muon_##name(float*, rest16*, ties8*, const float*, bf16*, const Chunk*, int, int, const MuonScalars*, \
                   const GroupScalars*, const StepResults*, float*, float*);
LLMC_MUON(copy)
LLMC_MUON(plain)
LLMC_MUON(second)
LLMC_MUON(share)
LLMC_MUON(first)
LLMC_MUON(split)
#undef LLMC_MUON
LLMC_INSTANCES(row_norms, (const Act*, float*))
LLMC_INSTANCES(scale_rows_momentum, (const float*, const float*, Act*))
LLMC_INSTANCES(scale_rows_result, (const Act*, const float*, float*))
void muon_factors_quintic(const float*, const MuonScalars*, float*);
void muon_factors_polar_express(const float*, const MuonScalars*, float*);
void muon_factors_result(const float*, const MuonScalars*, float*);
void muon_factors_tall(const float*, const MuonScalars*, float*);
void neuron_factors_wide(const float*, const MuonScalars*, const StepResults*, float*, float*);
void neuron_factors_tall(const float*, const MuonScalars*, const StepResults*, float*, float*);
void clear_part(float*, long long);
void clear_rows(float*, long long);
#define LLMC_QUANTISE(shape, folded)                                                                 \
  void quantise_##shape##_bf16_##folded(const bf16* x, const bf16* factors, bf16* y, float* scales); \
  void quantise_##shape##_e4m3_##folded(const bf16* x, const bf16* factors, e4m3* y, float* scales);
LLMC_QUANTISE(odd, false)
LLMC_QUANTISE(odd, true)
LLMC_QUANTISE(wide, false)
LLMC_QUANTISE(wide, true)
#undef LLMC_QUANTISE
#define LLMC_QUANTISED(Result)                                                                                    \
  void quantise_pair_##Result(const bf16* x, const bf16* factors, Result* y, float* scales);                      \
  void quantise_heads_##Result(const bf16* x, const bf16* factors, Result* y, float* scales);                     \
  void rms_norm_forward_quantised_##Result(const bf16*, const float*, bf16*, float*, Result*, float*);            \
  void rms_norm_backward_quantised_##Result(const bf16*, const bf16*, const float*, const float*, const bf16*,    \
                                            const bf16*, bf16*, float*, Result*, float*, bf16*, Result*, float*); \
  void swiglu_forward_quantised_##Result(const bf16*, bf16*, Result*, float*);                                    \
  void swiglu_backward_quantised_##Result(const bf16*, const bf16*, const bf16*, bf16*, Result*, float*, bf16*,   \
                                          Result*, float*);                                                       \
  void rope_backward_quantised_##Result(bf16*, const float*, const bf16*, Result*, float*);
LLMC_QUANTISED(bf16)
LLMC_QUANTISED(e4m3)
#undef LLMC_QUANTISED
void rope_packed(bf16*, const float*);
void rms_norm_backward_quantised_again(const bf16*, const bf16*, const float*, const float*, const bf16*, const bf16*,
                                       bf16*, float*, e4m3*, float*, bf16*, e4m3*, float*);
void swiglu_backward_quantised_alone(const bf16*, const bf16*, const bf16*, bf16*, e4m3*, float*, bf16*, e4m3*, float*);
void quantise_odd_weight(const bf16* x, const bf16* factors, bf16* y, bf16* scales);
void largest_scale_odd(const float* scales, float* shared);
void largest_magnitude_odd(const bf16* x, float* largest);
void quantise_by_tensor_e4m3_numbers(const bf16* x, const float* largest, bf16* y, float* scale);
void quantise_by_tensor_e5m2_numbers(const bf16* x, const float* largest, bf16* y, float* scale);
void quantise_by_tensor_e4m3_codes(const bf16* x, const float* largest, e4m3* y, float* scale);
void quantise_by_tensor_e5m2_codes(const bf16* x, const float* largest, e5m2* y, float* scale);
void quantise_blocks_bf16_false(const bf16* x, bf16* y, e8m0* scales);
void quantise_blocks_bf16_true(const bf16* x, bf16* y, e8m0* scales);
void quantise_blocks_e4m3_false(const bf16* x, e4m3* y, e8m0* scales);
void quantise_blocks_e4m3_true(const bf16* x, e4m3* y, e8m0* scales);
void rescale_rows_odd_false(const bf16* x, const bf16* factors, const float* shared, bf16* y);
void rescale_rows_odd_true(const bf16* x, const bf16* factors, const float* shared, bf16* y);
void swiglu_forward_of_4112(const float*, float*);
void swiglu_forward_of_1028(const float*, float*);
void swiglu_backward_of_4112(const float*, const float*, float*, float*);
void swiglu_backward_of_1028(const float*, const float*, float*, float*);
void column_reduce_odd(const float*, float*, int);
void loss_sum_odd(const float*, const float*, const float*, const float*, const StepScalars*, StepResults*, int);
void audit_loss_odd(const float*, const int*, float*);
void audit_loss_wide(const float*, const int*, float*);
void gradient_norm_small(const float*, const Chunk*, float*, int, int);
void gradient_norm_share(const float*, const Chunk*, float*, int, int);
void to_wire_bf16(const float*, bf16*, long long);
void from_wire_bf16(const bf16*, float*, long long, bool);
void from_wire_float(const float*, float*, long long, bool);
void z_loss_odd(const float*, const StepScalars*, double*, int);
void gradient_clip_small(const float*, int, const StepScalars*, StepResults*);
void gradient_clip_scaled_small(const float*, int, const StepScalars*, StepResults*, LossScale*);
void parameter_norms_scaled(const float*, const float*, const float*, const int*, float*, const LossScale*);
void cross_entropy_scaled(fp16*, const int*, float*, float*, float*, float*, const StepScalars*, const LossScale*);
void cross_entropy_capped_scaled(fp16*, const int*, float*, float*, float*, float*, const StepScalars*,
                                 const LossScale*);
void cross_entropy_capped_vast(bf16*, const int*, float*, float*, float*, float*, const StepScalars*);
void parameter_norms_small(const float*, const float*, const float*, const int*, float*);
void cast_weights_small(const float*, bf16*, const Chunk*, int, int);
void cast_weights_share(const float*, bf16*, const Chunk*, int, int);
void init_normal_small(float*, const InitRule*, const Chunk*, int, int, unsigned long long);
void init_normal_share(float*, const InitRule*, const Chunk*, int, int, unsigned long long);
void init_normal_uniform(float*, const InitRule*, const Chunk*, int, int, unsigned long long);
void init_normal_truncated(float*, const InitRule*, const Chunk*, int, int, unsigned long long);

#undef LLMC_INSTANCE

/// A shape and type with kernel instances; numbers as in CMakeLists.txt.
template <class T, int kR, int kC, int kP, int kB>
struct Case {
  using Act = T;
  static constexpr int kRows = kR, kCols = kC, kPitch = kP, kBlocks = kB;
  static constexpr bool kOdd = kC == 101, kHalf = sizeof(T) == 2;
};
using OddFloat = Case<float, 13, 101, 104, 3>;
using OddHalf = Case<bf16, 13, 101, 104, 3>;
using WideFloat = Case<float, 40, 256, 272, 7>;
using WideHalf = Case<bf16, 40, 256, 272, 7>;
using Cases = testing::Types<OddFloat, OddHalf, WideFloat, WideHalf>;

/// Selects the instance of `name` for a Case; LLMC_OF_FLAG: also by flag.
#define LLMC_PICK(odd_float, odd_bf16, wide_float, wide_bf16) \
  [] {                                                        \
    if constexpr (TypeParam::kOdd && TypeParam::kHalf)        \
      return &odd_bf16;                                       \
    else if constexpr (TypeParam::kOdd)                       \
      return &odd_float;                                      \
    else if constexpr (TypeParam::kHalf)                      \
      return &wide_bf16;                                      \
    else                                                      \
      return &wide_float;                                     \
  }()
#define LLMC_OF(name) LLMC_PICK(name##_odd_float, name##_odd_bf16, name##_wide_float, name##_wide_bf16)
#define LLMC_OF_FLAG(name, flag) \
  LLMC_PICK(name##_odd_float_##flag, name##_odd_bf16_##flag, name##_wide_float_##flag, name##_wide_bf16_##flag)

}  // namespace llmc
