#include "compiler/tools/dataset/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "text/console.h"

namespace llmc::data {

namespace {

/// Calls row(from, to, documents) for each power of two from the first to the last with documents.
template <class Row>
void for_each_bucket(const Lengths& lengths, Row row) {
  const auto& counts = lengths.counts();
  const auto is_used = [](std::int64_t count) { return count > 0; };
  const auto first = std::ranges::find_if(counts, is_used) - counts.begin();
  const auto past = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), is_used);
  for (auto i = first; i < past; ++i)
    row(std::int64_t{1} << i, static_cast<std::int64_t>((std::uint64_t{2} << i) - 1),
        counts[static_cast<std::size_t>(i)]);
}

}  // namespace

void Lengths::add(const TokenShards& shards) {
  constexpr std::int64_t kAtOnce = 1 << 20;
  std::vector<std::int32_t> tokens;
  for (std::size_t shard = 0; shard < shards.shards().size(); ++shard) {
    const std::int64_t all = shards.shards()[shard].layout.tokens;
    for (std::int64_t first = 0; first < all; first += kAtOnce) {
      tokens.resize(static_cast<std::size_t>(std::min(kAtOnce, all - first)));
      shards.read(shard, first, tokens);
      for (const std::int32_t token : tokens) {
        ++unfinished_;
        if (token != separator_) continue;
        ++counts_[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(unfinished_)) - 1)];
        longest_ = std::max(longest_, unfinished_);
        unfinished_ = 0;
      }
    }
  }
}

std::int64_t Lengths::documents() const { return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}); }

std::string lengths_text(const Lengths& lengths) {
  constexpr std::int64_t kWidth = 40;
  const std::int64_t most = std::max<std::int64_t>(std::ranges::max(lengths.counts()), 1);
  std::string text;
  for_each_bucket(lengths, [&](std::int64_t from, std::int64_t to, std::int64_t documents) {
    const auto bar = static_cast<std::size_t>((documents * kWidth + most - 1) / most);
    text += fmt::format("  {:>15} to {:>15} tokens {:>15}{}{}\n", format_count(from), format_count(to),
                        format_count(documents), bar > 0 ? "  " : "", std::string(bar, '#'));
  });
  return text;
}

nlohmann::ordered_json lengths_json(const Lengths& lengths) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for_each_bucket(lengths, [&](std::int64_t from, std::int64_t to, std::int64_t documents) {
    list.push_back({{"from", from}, {"to", to}, {"documents", documents}});
  });
  return list;
}

}  // namespace llmc::data
