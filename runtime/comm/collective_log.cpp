#include "comm/collective_log.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmc {
namespace {

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all-reduce";
    case CollectiveKind::all_reduce_max: return "all-reduce (largest)";
    case CollectiveKind::reduce_scatter: return "reduce-scatter";
    case CollectiveKind::all_gather: return "all-gather";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::text: return "gather of strings";
    case CollectiveKind::text_after_work: return "gather of strings after long work";
    case CollectiveKind::leave: return "leave";
    default: return "unknown collective";
  }
}

const char* name_of(CollectiveType type) {
  switch (type) {
    case CollectiveType::bytes: return "bytes";
    case CollectiveType::fp32: return "fp32";
    case CollectiveType::fp64: return "fp64";
    case CollectiveType::bf16: return "bf16";
    default: return "values of an unknown type";
  }
}

}  // namespace

std::string Collective::text() const {
  const auto type = static_cast<CollectiveType>(word_ >> 48 & 0xff);
  const std::string name = name_of(kind());
  return type == CollectiveType::none ? name : fmt::format("{} of {} {}", name, word_ & kCount, name_of(type));
}

CollectiveReport CollectiveLog::report() const {
  CollectiveReport report;
  report.wait_turns = wait_turns_.load(std::memory_order_acquire);
  report.count = count_.load(std::memory_order_acquire);
  std::uint64_t words[kTold];
  const std::uint64_t told = std::min<std::uint64_t>(report.count, kTold);
  for (std::uint64_t i = 0; i < told; ++i)
    words[i] = kept_[(report.count - told + 1 + i) % kKept].load(std::memory_order_acquire);
  // The writer may have wrapped around meanwhile: omits entries that may be overwritten.
  if (count_.load(std::memory_order_relaxed) + kTold >= report.count + kKept) return report;
  for (std::uint64_t i = 0; i < told; ++i) report.newest.push_back(Collective::from_word(words[i]));
  return report;
}

}  // namespace llmc
