// Tile products with operands in the L1 cache, by number of tile registers in use: the basis of multiply_block()
// (docs/explanation/amx.md, "Four tile registers"). Two threads; time is that of one product.
#include <benchmark/benchmark.h>

#include "device/cpu/tiles.h"

namespace llmc {
namespace {

constexpr int kProducts = 12, kRepeats = 500, kWords = 256;  // words of a tile

/// Twelve products: 4 x 3, 3 x 4 or 2 x 6 at a time, and the loads of their operands.
template <int kRegisters>
LLMC_TILE void products(Tiles& t, const float* a) {
  const auto four = [&]<int kA, int kB, int kOtherA, int kOtherB>() {
    t.load<kA>(a, 16), t.load<kB>(a + kWords, 16);
    t.multiply<0, kA, kB>();
    t.load<kOtherB>(a + 2 * kWords, 16);
    t.multiply<1, kA, kOtherB>();
    t.load<kOtherA>(a + 3 * kWords, 16);
    t.multiply<3, kOtherA, kOtherB>();
    if (kB == kOtherB) t.load<kB>(a + kWords, 16);
    t.multiply<2, kOtherA, kB>();
  };
  for (int i = 0; i < 3 && kRegisters >= 6; ++i) {
    if constexpr (kRegisters == 8) four.template operator()<4, 6, 5, 7>();
    if constexpr (kRegisters == 7) four.template operator()<4, 6, 4, 7>();
    if constexpr (kRegisters == 6) four.template operator()<4, 6, 4, 6>();
  }
  for (int i = 0; i < 4 && kRegisters == 5; ++i) {
    t.load<3>(a, 16), t.load<4>(a + kWords, 16);
    t.multiply<0, 3, 4>();
    t.load<4>(a + 2 * kWords, 16);
    t.multiply<1, 3, 4>();
    t.load<4>(a + 3 * kWords, 16);
    t.multiply<2, 3, 4>();
  }
  for (int i = 0; i < 6 && kRegisters == 4; ++i) {
    t.load<2>(a, 16), t.load<3>(a + kWords, 16);
    t.multiply<0, 2, 3>();
    t.load<3>(a + 2 * kWords, 16);
    t.multiply<1, 2, 3>();
  }
}

template <int kRegisters>
void tile_registers(benchmark::State& state) {
  for (auto _ : state) {
#pragma omp parallel num_threads(2)
    {
      alignas(64) float operands[4 * kWords] = {};
      Tiles tiles;
      for (int i = 0; i < kRepeats; ++i) products<kRegisters>(tiles, operands);
    }
  }
  state.counters["a product"] = benchmark::Counter(
      kProducts * kRepeats, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace

void add_tile_registers() {
  benchmark::RegisterBenchmark("tiles/registers/8", tile_registers<8>)->UseRealTime();
  benchmark::RegisterBenchmark("tiles/registers/7", tile_registers<7>)->UseRealTime();
  benchmark::RegisterBenchmark("tiles/registers/6", tile_registers<6>)->UseRealTime();
  benchmark::RegisterBenchmark("tiles/registers/5", tile_registers<5>)->UseRealTime();
  benchmark::RegisterBenchmark("tiles/registers/4", tile_registers<4>)->UseRealTime();
}

}  // namespace llmc
