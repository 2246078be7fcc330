#include "trainer/startup/surplus_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace llmc {
namespace {

/// "1 processor", "3 processors"
std::string counted(int count, const char* noun) { return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s"); }

}  // namespace

std::vector<RankThreads> gather_threads(Rendezvous& ranks, const RankThreads& mine) {
  std::vector<RankThreads> result;
  for (const std::string& text :
       ranks.all_gather(fmt::format("{}\n{}\n{}", mine.host, mine.threads, mine.processors))) {
    std::istringstream lines(text);
    std::string threads;
    RankThreads& rank = result.emplace_back();
    std::getline(lines, rank.host);
    std::getline(lines, threads);
    rank.threads = std::stoi(threads);
    std::getline(lines, rank.processors);
  }
  return result;
}

std::string surplus_threads(const std::vector<RankThreads>& ranks, const HostLimits& limits) {
  std::set<int> numbers;
  int here = 0, threads = 0, least = ranks[0].threads, most = 0;
  for (const RankThreads& rank : ranks) {
    if (rank.host != ranks[0].host) continue;
    std::istringstream list(rank.processors);
    for (int number; list >> number;) numbers.insert(number);
    ++here;
    threads += rank.threads;
    least = std::min(least, rank.threads);
    most = std::max(most, rank.threads);
  }
  if (numbers.empty()) return "";
  const int processors = limits.processors(static_cast<int>(numbers.size()));
  if (threads <= processors) return "";
  const std::string share = "share " + counted(processors, "processor");
  if (here == 1)
    return fmt::format("{} {}, which is slower than --threads {}", counted(threads, "thread"), share, processors);
  const std::string each = (least < most ? fmt::format("{} to ", least) : "") + counted(most, "thread");
  const std::string fewer = here > processors ? counted(processors, "rank") + " with " : "";
  return fmt::format("{} ranks with {} each {}, which is slower than {}--threads {}", here, each, share, fewer,
                     std::max(processors / here, 1));
}

}  // namespace llmc
