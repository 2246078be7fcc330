// Values that stand out from those before them.
#include "compiler/tools/runs/outliers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace llmc::runs {
namespace {

/// Indices of the outliers in `values`.
std::vector<std::size_t> found(const std::vector<double>& values) {
  Outliers outliers;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (outliers.observe(values[i])) places.push_back(i);
  return places;
}

/// Falls from 11 to 3 with noise of 2 %.
std::vector<double> losses(std::size_t count) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    const auto x = static_cast<double>(i);
    values.push_back((3 + 8 * std::exp(-x / 100)) * (1 + 0.02 * std::sin(12.9898 * x)));
  }
  return values;
}

using Places = std::vector<std::size_t>;

TEST(Outliers, SpikesStandOut) {
  std::vector<double> values = losses(2000);
  EXPECT_EQ(found(values), Places{}) << "a curve without spikes";
  values[500] *= 1.5;
  values[501] *= 1.5;
  values[1999] *= 10;
  values[700] /= 10;
  EXPECT_EQ(found(values), (Places{500, 501, 1999})) << "what lies below is none";
  for (double& value : values) value *= 1e-6;
  EXPECT_EQ(found(values), (Places{500, 501, 1999})) << "whatever the size of all";
}

TEST(Outliers, NeedValuesBefore) {
  std::vector<double> values(Outliers::kFewest, 1.0);
  values.push_back(2);
  EXPECT_EQ(found(values), Places{Outliers::kFewest});
  EXPECT_EQ(found(std::vector(values.begin() + 1, values.end())), Places{});
  values.back() = 1.05;
  EXPECT_EQ(found(values), Places{}) << "of equal values, 5 % more is none";
}

TEST(Outliers, ALevelThatStaysIsNone) {
  std::vector<double> values(300, 1.0);
  values.resize(600, 2.0);
  const Places places = found(values);
  EXPECT_EQ(places.front(), 300u);
  EXPECT_LE(places.back(), 300u + Outliers::kWindow / 2) << "until most of the values before are of it";
}

TEST(Outliers, ArePassedOverWhereTheyAreNoNumbers) {
  std::vector<double> values = losses(200);
  const double wrong[] = {std::nan(""), std::numeric_limits<double>::infinity(), 0.0, -1.0};
  for (std::size_t i = 0; i < 80; ++i) values[100 + i] = wrong[i % 4];
  EXPECT_EQ(found(values), Places{});
  values[190] = 30;
  EXPECT_EQ(found(values), Places{190});
}

}  // namespace
}  // namespace llmc::runs
