// RoPE of the first elements of heads, in pairs of halves and of neighbours.
#include "kernels.h"

namespace llmc {

#define LLMC_ROPE_PART(name)                                 \
  void rope_part_##name##_float_false(float*, const float*); \
  void rope_part_##name##_float_true(float*, const float*);  \
  void rope_part_##name##_bf16_false(bf16*, const float*);   \
  void rope_part_##name##_bf16_true(bf16*, const float*);
LLMC_ROPE_PART(halves)
LLMC_ROPE_PART(pairs)
LLMC_ROPE_PART(all_pairs)
LLMC_ROPE_PART(scaled)
LLMC_ROPE_PART(scaled_pairs)
#undef LLMC_ROPE_PART

namespace {

constexpr int kRows = 12, kSequence = 6, kHeads = 3, kKvHeads = 1, kHeadDim = 20, kPitch = 88;

/// Of q at position `t` with kScaled, as instances.cmake has its params.
double factor_of_q(int t) { return 1 + 0.7 * std::log(1.0 + t / 2); }

/// Elements of the pair that element `c` of a head is in; both are `c` if it is not rotated.
struct Place {
  int first, second, pair;
};
Place place_of(int c, int rotary, bool pairs) {
  if (c >= rotary) return {c, c, 0};
  if (pairs) return {c / 2 * 2, c / 2 * 2 + 1, c / 2};
  const int half = rotary / 2;
  return {c % half, c % half + half, c % half};
}

double angle(int t, int pair) { return t * std::pow(10.0, -pair / 3.0); }

/// By the layout that the kernels' comments give.
std::vector<float> angles(int rotary, bool pairs) {
  std::vector<float> table(static_cast<std::size_t>(kSequence) * rotary);
  for (int t = 0; t < kSequence; ++t)
    for (int i = 0; i < rotary / 2; ++i) {
      table[t * rotary + (pairs ? 2 * i : i)] = static_cast<float>(std::cos(angle(t, i)));
      table[t * rotary + (pairs ? 2 * i + 1 : rotary / 2 + i)] = static_cast<float>(std::sin(angle(t, i)));
    }
  return table;
}

template <class Act, class Kernel>
void check(Kernel kernel, int rotary, bool pairs, bool scaled, double sign) {
  const auto before = random_values<Act>(kRows * kPitch, 1);
  const auto table = angles(rotary, pairs);
  const auto [after] =
      on_any_threads([&] { return std::tuple(before); },
                     [&](int threads, auto& out) { run(threads, kernel, std::get<0>(out).data(), table.data()); });
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kPitch; ++c) {
      const int at = r * kPitch + c, head = at - c % kHeadDim;
      const auto [first, second, pair] = place_of(c % kHeadDim, rotary, pairs);
      const double factor = scaled && c < (kHeads - kKvHeads) * kHeadDim ? factor_of_q(r % kSequence) : 1;
      if (c >= kHeads * kHeadDim || first == second) {  // values, padding, and elements that are not rotated
        const double exact = factor * value(before[at]);
        ASSERT_NEAR(value(after[at]), exact, factor == 1 ? 0 : tolerance<Act>(exact, 5.0)) << r << " " << c;
        continue;
      }
      const double cosine = std::cos(angle(r % kSequence, pair)), sine = sign * std::sin(angle(r % kSequence, pair));
      const double a = value(before[head + first]), b = value(before[head + second]);
      const double exact = factor * (head + first == at ? a * cosine - b * sine : b * cosine + a * sine);
      ASSERT_NEAR(value(after[at]), exact, tolerance<Act>(exact, 5.0)) << r << " " << c;  // terms of 5 at most
    }
}

#define LLMC_CHECK(name, rotary, pairs, scaled)                           \
  check<float>(rope_part_##name##_float_false, rotary, pairs, scaled, 1); \
  check<bf16>(rope_part_##name##_bf16_false, rotary, pairs, scaled, 1);   \
  check<float>(rope_part_##name##_float_true, rotary, pairs, scaled, -1); \
  check<bf16>(rope_part_##name##_bf16_true, rotary, pairs, scaled, -1);

TEST(RopePart, TurnsHalvesOfTheFirstElements){LLMC_CHECK(halves, 12, false, false)}

TEST(RopePart, TurnsNeighbours){LLMC_CHECK(pairs, 14, true, false) LLMC_CHECK(all_pairs, kHeadDim, true, false)}

TEST(RopePart, ScalesQPastTheOriginalContext) {
  LLMC_CHECK(scaled, kHeadDim, false, true)
  LLMC_CHECK(scaled_pairs, 14, true, true)
}

#undef LLMC_CHECK

}  // namespace
}  // namespace llmc
