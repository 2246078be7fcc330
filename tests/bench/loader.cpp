// Tokens a second of the loader: samples in a run's order from mapped shards into micro-batches with sorted tokens.
#include "data/loader.h"

#include <benchmark/benchmark.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "files/temporary_folder.h"

namespace llmc {
namespace {

constexpr std::int64_t kShards = 4, kTokens = 25'000'000;  // of a shard

/// Shards of random tokens, for all benchmarks.
std::shared_ptr<const TokenShards> shards() {
  static const TemporaryFolder folder("bench-loader");
  static const auto opened = [] {
    std::mt19937 generator(1);
    std::vector<std::uint16_t> tokens(kTokens);
    for (std::int64_t shard = 0; shard < kShards; ++shard) {
      for (std::uint16_t& token : tokens) token = static_cast<std::uint16_t>(generator() >> 17);
      const std::array<std::int32_t, 256> header = {20240520, 1, kTokens};
      std::ofstream file(folder.path() / std::to_string(shard), std::ios::binary);
      file.write(reinterpret_cast<const char*>(header.data()), sizeof(header));
      file.write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(2 * tokens.size()));
    }
    return std::make_shared<const TokenShards>((folder.path() / "*").string(), "llmc", 32768, std::filesystem::path());
  }();
  return opened;
}

void steps(benchmark::State& state) {
  const Sources sources = {{.name = "", .shards = shards()}};
  const std::int64_t length = state.range(0), sequences = 65536 / length;
  Loader loader(sources, 1, length, std::min<std::int64_t>(sequences, 8), sequences, beginning(sources));
  StepBatch batch;
  for (auto _ : state) batch = loader.next(std::move(batch));
  state.SetItemsProcessed(state.iterations() * sequences * length);
}
// The loader works on its own thread, so the process's time counts.
BENCHMARK(steps)->Arg(256)->Arg(1024)->Arg(4096)->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace llmc

BENCHMARK_MAIN();
