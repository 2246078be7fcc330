#include "block.h"

#include <bit>

namespace sim {

std::string describe_waiting(const Block& block, std::size_t at_cluster_barrier) {
  std::string text;
  const auto say = [&](std::size_t lanes, const std::string& where) {
    if (lanes)
      text +=
          "; " + std::to_string(lanes) + " lanes of block " + std::to_string(block.order.index) + " wait at " + where;
  };
  say(block.whole.waiting.size(), "__syncthreads");
  for (int id = 1; id < kNamedBarriers; ++id)
    say(block.named[id].waiting.size(),
        "barrier " + std::to_string(id) + " for " + std::to_string(block.named[id].expected));
  say(at_cluster_barrier, "the barrier of the cluster");
  for (const PhaseBarrier& barrier : block.barriers)
    say(barrier.waiting.size(), "a barrier of copies, whose phase lacks " + std::to_string(barrier.missing) +
                                    " arrivals and " + std::to_string(barrier.bytes) + " bytes");
  for (int warp = 0; warp < block.order.warps; ++warp)
    for (const Meeting& meeting : block.meetings[warp])
      say(static_cast<std::size_t>(std::popcount(meeting.arrived)),
          "a shuffle, vote or __syncwarp of warp " + std::to_string(warp));
  return text;
}

}  // namespace sim
