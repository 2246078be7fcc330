// Products of warpgroups, whose results appear when the lane waits for them.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "block.h"
#include "cuda_runtime.h"
#include "device/cuda/ptx.h"
#include "report.h"
#include "shadow.h"

namespace sim {
namespace {

/// Each lane reads a part of the tile again, so that its warp reads all of it.
void touch_tile(const void* tile) {
  constexpr std::size_t kPart = 64 * 64 * 2 / 32;
  touch_from_lane(Access::read,
                  reinterpret_cast<std::uintptr_t>(tile) + static_cast<std::size_t>(lane_of_warp()) * kPart, kPart);
}

}  // namespace

void show_to_warpgroups() { this_lane().shown_to_warpgroups = true; }

const unsigned short& element_of_tile(const void* tile, int row, int column) {
  if (reinterpret_cast<std::uintptr_t>(tile) % 1024)
    report("a product of a warpgroup with a tile that does not begin at a multiple of 1024 bytes");
  return static_cast<const unsigned short*>(tile)[64 * row + (column / 8 ^ row % 8) * 8 + column % 8];
}

float (&begin_product(float (&d)[8][4], bool adds))[8][4] {
  Lane& lane = this_lane();
  if (!lane.shown_to_warpgroups)
    report("a product of a warpgroup before show_to_warpgroups() of what the lane has copied");
  const auto same = [&](const Product& product) { return product.result == &d; };
  auto found = std::find_if(lane.products.begin(), lane.products.end(), same);
  if (found == lane.products.end()) {
    found = lane.products.insert(found, {&d, std::make_unique<Results>(), 0, {}});
    std::copy(&d[0][0], &d[0][0] + 32, &found->values->numbers[0][0]);
    std::fill(&d[0][0], &d[0][0] + 32, std::numeric_limits<float>::quiet_NaN());
  }
  found->group = lane.groups;
  auto& values = found->values->numbers;
  if (!adds) std::fill(&values[0][0], &values[0][0] + 32, 0.0f);
  return values;
}

void reads_tile(const float (&d)[8][4], const void* tile) {
  const auto same = [&](const Product& product) { return product.result == &d; };
  std::vector<const void*>& tiles = std::ranges::find_if(this_lane().products, same)->tiles;
  if (std::ranges::find(tiles, tile) == tiles.end()) tiles.push_back(tile);
}

void commit_products() { ++this_lane().groups; }

void wait_for_products(int later) {
  Lane& lane = this_lane();
  const auto done = [&](const Product& product) {
    if (product.group >= lane.groups - later) return false;
    const auto& values = product.values->numbers;
    std::copy(&values[0][0], &values[0][0] + 32, &(*product.result)[0][0]);
    for (const void* tile : product.tiles) touch_tile(tile);
    return true;
  };
  std::erase_if(lane.products, done);
}

}  // namespace sim
