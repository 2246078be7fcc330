#include "comm/collective_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "comm/assembly.h"

namespace llmc {
namespace {

constexpr std::int64_t kSteps = 100;  // a collective may take as long as this many steps

double in_seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void write_report(BodyWriter& body, const RankReport& report) {
  const CollectiveReport& collectives = report.collectives;
  body.text(report.phase).number(collectives.wait_turns).number(collectives.count).number(collectives.newest.size());
  for (const Collective& collective : collectives.newest) body.number(collective.word());
}

RankReport read_report(BodyReader& body, std::int64_t step) {
  RankReport report{step, body.text(), {}};
  CollectiveReport& collectives = report.collectives;
  collectives.wait_turns = body.number();
  collectives.count = body.number();
  const std::uint64_t told = body.number();
  if (told > CollectiveLog::kTold || told > collectives.count)
    throw WireError("more collectives than a report may have");
  for (std::uint64_t i = 0; i < told; ++i) collectives.newest.push_back(Collective::from_word(body.number()));
  return report;
}

std::optional<CollectiveJudge::Verdict> CollectiveJudge::judge(MonotonicTime now, std::chrono::milliseconds beat) {
  // Time in which this process was stopped, or the machine slept, does not count.
  const auto passed =
      judged_ ? std::min(std::chrono::duration_cast<std::chrono::milliseconds>(now - *judged_), 2 * beat) : beat;
  judged_ = now;
  if (first_step_ >= 0) since_first_ += passed;
  if (first_step_ < 0) first_step_ = ranks_[0].report.step;
  for (Rank& rank : ranks_) {
    const CollectiveReport& told = rank.report.collectives;
    const std::uint64_t turns = told.wait_turns;
    const bool unlimited = !told.newest.empty() && told.newest.back().unlimited();
    const bool same = turns % 2 == 1 && turns == rank.wait_turns && !unlimited;
    rank.waited = same ? rank.waited + passed : std::chrono::milliseconds(0);
    rank.wait_turns = turns;
  }
  if (std::optional<Verdict> verdict = different()) return verdict;
  const auto longest = std::ranges::max_element(ranks_, {}, &Rank::waited);
  if (longest->waited <= longest_allowed()) return std::nullopt;
  return Verdict{fmt::format("a collective takes longer than {:g} s (--collective-timeout, or 100 steps where that is "
                             "longer): rank {} is waiting in it",
                             in_seconds(longest_allowed()), longest - ranks_.begin()),
                 table()};
}

std::optional<CollectiveJudge::Verdict> CollectiveJudge::different() const {
  std::map<std::uint64_t, std::pair<Collective, std::size_t>> known;  // by number: the first report of it
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const CollectiveReport& report = ranks_[rank].report.collectives;
    std::uint64_t number = report.count - report.newest.size();
    for (const Collective& collective : report.newest) {
      const auto [first, fresh] = known.try_emplace(++number, collective, rank);
      if (fresh || first->second.first == collective) continue;
      return Verdict{fmt::format("the ranks are in different collectives: number {} is {} on rank {} and {} on rank {}",
                                 number, first->second.first.text(), first->second.second, collective.text(), rank),
                     table()};
    }
  }
  return std::nullopt;
}

std::chrono::milliseconds CollectiveJudge::longest_allowed() const {
  const std::int64_t steps = ranks_[0].report.step - first_step_;
  return first_step_ < 0 || steps < 1 ? limit_ : std::max(limit_, kSteps * since_first_ / steps);
}

std::string CollectiveJudge::row(const Rank& rank) const {
  const CollectiveReport& told = rank.report.collectives;
  const std::string last =
      told.count == 0
          ? "none so far"
          : fmt::format("number {}, {}", told.count, told.newest.empty() ? "not reported" : told.newest.back().text());
  return fmt::format("{:>8}  {:<24}  {}, {}", rank.report.step < 0 ? "start" : fmt::format("{}", rank.report.step),
                     rank.report.phase, last, told.wait_turns % 2 ? "waits" : "does not wait");
}

/// Ranks at the same place share one line.
std::string CollectiveJudge::table() const {
  std::vector<std::pair<std::string, std::vector<int>>> rows;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const std::string text = row(ranks_[rank]);
    auto same = std::ranges::find(rows, text, &std::pair<std::string, std::vector<int>>::first);
    if (same == rows.end()) same = rows.insert(rows.end(), {text, {}});
    same->second.push_back(static_cast<int>(rank));
  }
  std::string table = fmt::format("{:<16}  {:>8}  {:<24}  {}\n", "rank", "step", "phase", "collective");
  for (const auto& [text, ranks] : rows) table += fmt::format("{:<16}  {}\n", rank_list(ranks), text);
  return table;
}

}  // namespace llmc
