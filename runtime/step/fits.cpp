#include "step/fits.h"

#include <fmt/format.h>

#include <algorithm>

#include "error.h"
#include "host/limits.h"
#include "program/shards.h"
#include "step/arena_offsets.h"

namespace llmc {

void check_fits(const ProgramInfo& info, std::size_t arena_bytes, int ranks) {
  if (info.process_bytes == 0) return;  // a GPU run's memory is on the GPU
  const auto [free, file] = HostLimits().free_memory();
  // Memory that this process already uses is not counted as free.
  const std::size_t have = ranks == 1 ? static_cast<std::size_t>(resident_bytes()) : 0;
  const std::size_t beside = info.process_bytes - std::min(info.process_bytes, have);
  const std::size_t needed = static_cast<std::size_t>(ranks) * (arena_bytes + beside);
  if (free == 0 || needed <= free) return;
  const auto mib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  throw Failure(
      Exit::does_not_fit,
      fmt::format("{} {:.1f} MiB of memory ({:.1f} in the arena, {:.1f} outside it{}), but this {} has {:.1f} MiB "
                  "available. Make batch.micro_batch or the model smaller{}",
                  ranks == 1 ? "the run needs" : fmt::format("{} ranks need", ranks), mib(needed), mib(arena_bytes),
                  mib(beside), ranks == 1 ? "" : ", for each", file.empty() ? "machine" : "process, by '" + file + "',",
                  mib(free), ranks == 1 ? "" : ", or start fewer ranks"));
}

void check_ranks_fit(const ProgramInfo& info, int ranks) {
  const Shares shares =
      info.shard == Shard::none ? Shares(info.buckets) : Shares(info.buckets, DataRank{0, ranks}, info.share_unit);
  check_fits(info, ArenaOffsets(info, shares, ranks).bytes(), ranks);
}

}  // namespace llmc
