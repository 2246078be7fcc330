#include "data/order/mixture.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <queue>
#include <string_view>

namespace llmc {

namespace {

constexpr std::uint64_t kBlock = 256;  // samples between two counts

/// A weight as digits * 10^exponent, in its shortest decimal form: 0.1 is one tenth, not the double next to it.
struct Decimal {
  std::int64_t digits = 0;
  int exponent = 0;
};

Decimal decimal_of(double weight) {
  std::array<char, 40> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), weight, std::chars_format::scientific).ptr;
  Decimal decimal;
  const std::string_view all(text.data(), static_cast<std::size_t>(end - text.data()));
  const std::size_t e = all.find('e');
  for (std::size_t i = 0; i < e; ++i) {
    if (all[i] == '.') continue;
    decimal.digits = decimal.digits * 10 + (all[i] - '0');
    decimal.exponent -= i > 1;  // digits after the point
  }
  int power = 0;
  std::from_chars(all.data() + e + 1 + (all[e + 1] == '+'), all.data() + all.size(), power);
  decimal.exponent += power;
  return decimal;
}

using Shares = std::vector<std::uint64_t>;

/// Whole numbers in the ratio of the weights with the smallest sum; nothing if that exceeds the longest period.
std::optional<Shares> whole_shares(std::span<const double> weights) {
  std::vector<Decimal> decimals;
  for (const double weight : weights) decimals.push_back(decimal_of(weight));
  const int smallest = std::ranges::min(decimals, {}, &Decimal::exponent).exponent;
  Shares shares;
  std::uint64_t divisor = 0;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 58;  // no sum of two overflows
  for (const Decimal& decimal : decimals) {
    auto share = static_cast<std::uint64_t>(decimal.digits);
    for (int i = smallest; i < decimal.exponent; ++i) {
      if (share > kMost / 10) return std::nullopt;
      share *= 10;
    }
    shares.push_back(share);
    divisor = std::gcd(divisor, share);
  }
  std::uint64_t sum = 0;
  for (std::uint64_t& share : shares) {
    share /= divisor;
    sum += std::min(share, kMost);
    if (sum > Mixture::kLongestPeriod) return std::nullopt;
  }
  return shares;
}

/// Shares of 2^40, at least one each.
Shares rounded_shares(std::span<const double> weights) {
  constexpr std::uint64_t kAll = std::uint64_t{1} << 40;
  double total = 0;
  for (const double weight : weights) total += weight;
  Shares shares;
  std::uint64_t sum = 0;
  for (const double weight : weights) {
    shares.push_back(std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(std::llround(weight / total * static_cast<double>(kAll)))));
    sum += shares.back();
  }
  *std::ranges::max_element(shares) += kAll - sum;
  return shares;
}

Shares shares_of(std::span<const double> weights) {
  if (const auto whole = whole_shares(weights)) return *whole;
  return rounded_shares(weights);
}

/// The next sample of a source.
struct Turn {
  std::uint64_t when;  // its release, or the number of samples of the source that it completes
  std::size_t source;
};

}  // namespace

Mixture::Mixture(std::span<const double> weights) : sources_(weights.size()) {
  const Shares shares = shares_of(weights);
  const std::uint64_t sum = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
  const std::uint64_t period = std::min(sum, kLongestPeriod);
  // Products stay below 2^61: counts are at most 2^20 + 1, shares 2^40.
  const auto later = [&](const Turn& a, const Turn& b) {
    const std::uint64_t left = a.when * shares[b.source], right = b.when * shares[a.source];
    return left != right ? left > right : a.source > b.source;
  };
  const auto released_later = [](const Turn& a, const Turn& b) { return a.when > b.when; };
  std::priority_queue<Turn, std::vector<Turn>, decltype(later)> ready(later);
  std::priority_queue<Turn, std::vector<Turn>, decltype(released_later)> waiting(released_later);
  for (std::size_t i = 0; i < sources_; ++i) ready.push({1, i});
  std::vector<std::uint32_t> counts(sources_);
  source_.reserve(period);
  for (std::uint64_t n = 0; n < period; ++n) {
    if (n % kBlock == 0) before_.insert(before_.end(), counts.begin(), counts.end());
    for (; !waiting.empty() && waiting.top().when <= n; waiting.pop())
      ready.push({counts[waiting.top().source] + std::uint64_t{1}, waiting.top().source});
    const std::size_t chosen = ready.top().source;
    ready.pop();
    source_.push_back(static_cast<std::uint16_t>(chosen));
    // The smallest n for which count < share / sum * (n + 1).
    waiting.push({++counts[chosen] * sum / shares[chosen], chosen});
  }
  before_.insert(before_.end(), counts.begin(), counts.end());
}

std::uint64_t Mixture::count_of(std::size_t source, std::uint64_t n) const {
  const std::uint64_t rest = n % period(), block = rest / kBlock;
  std::uint64_t count = n / period() * before_[before_.size() - sources_ + source] + before_[block * sources_ + source];
  for (std::uint64_t i = block * kBlock; i < rest; ++i) count += source_[i] == source;
  return count;
}

bool same_mixture(std::span<const double> a, std::span<const double> b) {
  return a.size() == b.size() && shares_of(a) == shares_of(b);
}

}  // namespace llmc
