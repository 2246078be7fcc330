// Embedding lookups, their gradient, and rows selected by number: bit-exact.
#include <algorithm>
#include <numeric>

#include "kernels.h"

namespace llmc {

void embedding_forward_scaled(const int*, const float*, float*);
void embedding_backward_scaled(const float*, const int*, const int*, const int*, const int*, float*);

namespace {

template <class C>
struct Embedding : testing::Test {};
TYPED_TEST_SUITE(Embedding, Cases);

constexpr int kVocabulary = 50;

template <class C>
void expect_rows(const std::vector<typename C::Act>& out, const std::vector<typename C::Act>& from,
                 const std::vector<int>& rows) {
  for (int r = 0; r < C::kRows; ++r)
    for (int c = 0; c < C::kPitch; ++c) {
      const double exact = c < C::kCols ? value(from[rows[r] * C::kPitch + c]) : 0;
      ASSERT_EQ(value(out[r * C::kPitch + c]), exact) << r << " " << c;
    }
}

TYPED_TEST(Embedding, ForwardAndGather) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto table = random_rows<Act>(kVocabulary, C::kCols, C::kPitch, 1);
  std::vector<int> tokens(C::kRows);
  for (int r = 0; r < C::kRows; ++r) tokens[r] = r * 17 % kVocabulary;
  const auto make = [&] { return std::tuple(std::vector<Act>(C::kRows * C::kPitch, garbage<Act>())); };
  const auto [out] = on_any_threads(make, [&](int threads, auto& out) {
    run(threads, LLMC_OF(embedding_forward), tokens.data(), table.data(), std::get<0>(out).data());
  });
  expect_rows<C>(out, table, tokens);
  const auto [picked] = on_any_threads(make, [&](int threads, auto& out) {
    run(threads, LLMC_OF(gather_rows), table.data(), tokens.data(), std::get<0>(out).data());
  });
  expect_rows<C>(picked, table, tokens);
}

TYPED_TEST(Embedding, BackwardAddsInOrder) {
  using Act = typename TypeParam::Act;
  constexpr int kPositions = 60, kCols = 101, kPitch = 104;
  const auto dx = random_rows<Act>(kPositions, kCols, kPitch, 2);
  std::vector<int> tokens(kPositions), order(kPositions), begin, token;
  for (int p = 0; p < kPositions; ++p) tokens[p] = p % 3 == 0 ? 7 : p * 13 % kVocabulary;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return tokens[a] < tokens[b]; });
  for (int i = 0; i < kPositions; ++i)
    if (i == 0 || tokens[order[i]] != tokens[order[i - 1]]) begin.push_back(i), token.push_back(tokens[order[i]]);
  const int count = static_cast<int>(token.size());
  begin.push_back(kPositions);

  const auto before = random_rows<float>(kVocabulary, kCols, kPitch, 3);
  const auto [table] = on_any_threads([&] { return std::tuple(before); },
                                      [&](int threads, auto& out) {
                                        run(threads, LLMC_OF(embedding_backward), dx.data(), order.data(), begin.data(),
                                            token.data(), &count, std::get<0>(out).data());
                                      });
  for (int t = 0; t < kVocabulary; ++t) {
    const bool occurs = std::count(tokens.begin(), tokens.end(), t) > 0;
    for (int c = 0; c < kCols; ++c) {
      float sum = 0;
      for (int p = 0; p < kPositions; ++p)
        if (tokens[p] == t) sum += to_float(dx[p * kPitch + c]);
      ASSERT_EQ(table[t * kPitch + c], occurs ? before[t * kPitch + c] + sum : before[t * kPitch + c]) << t << " " << c;
    }
  }
}

// kScale is 12: rows of the table and sums of their gradients are multiplied once.
TEST(ScaledEmbedding, MultipliesRowsAndTheirGradient) {
  constexpr int kRows = 13, kCols = 101, kPitch = 104;
  const auto table = random_rows<float>(kVocabulary, kCols, kPitch, 1),
             dx = random_rows<float>(kRows, kCols, kPitch, 2);
  std::vector<int> tokens(kRows), order(kRows), begin = {0, kRows}, token = {3};
  for (int r = 0; r < kRows; ++r) tokens[r] = r * 17 % kVocabulary;
  std::iota(order.begin(), order.end(), 0);
  std::vector<float> out(kRows * kPitch), dtable = table;
  run(1, embedding_forward_scaled, tokens.data(), table.data(), out.data());
  const int count = 1;
  run(1, embedding_backward_scaled, dx.data(), order.data(), begin.data(), token.data(), &count, dtable.data());
  for (int c = 0; c < kCols; ++c) {
    float sum = 0;
    for (int r = 0; r < kRows; ++r) {
      ASSERT_EQ(out[r * kPitch + c], 12 * table[tokens[r] * kPitch + c]);
      sum += dx[r * kPitch + c];
    }
    ASSERT_EQ(dtable[3 * kPitch + c], table[3 * kPitch + c] + 12 * sum);
    ASSERT_EQ(dtable[4 * kPitch + c], table[4 * kPitch + c]);
  }
}

}  // namespace
}  // namespace llmc
