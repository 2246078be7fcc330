// libFuzzer target: the headers of token shards. Any bytes give a layout that fits the file, or a Failure.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "data/shard_format.h"
#include "error.h"

namespace {

using llmc::ShardLayout;

/// Reading tokens by this layout must stay inside `bytes`.
void check(const ShardLayout& layout, std::uint64_t bytes) {
  const auto width = static_cast<std::uint64_t>(llmc::size_of(layout.type));
  if (layout.tokens < 0 || layout.begin > bytes ||
      (bytes - layout.begin) / width != static_cast<std::uint64_t>(layout.tokens) ||
      (bytes - layout.begin) % width != 0 || layout.begin % width != 0)
    std::abort();
}

template <typename Parse>
void attempt(Parse parse, std::uint64_t bytes) {
  try {
    check(parse(), bytes);
  } catch (const llmc::Failure& failure) {
    if (failure.code() != llmc::Exit::data) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  attempt([&] { return llmc::parse_llmc_shard(file, "fuzz"); }, size);
  for (const auto format : {llmc::ShardFormat::nanogpt, llmc::ShardFormat::nanogpt32})
    attempt([&] { return llmc::parse_raw_shard(file, format, "fuzz"); }, size);
  // The index does not contain the size of the .bin file: takes it from the end of the input, and tries a small one
  // too.
  if (size >= 8) {
    std::uint64_t bin_bytes;
    std::memcpy(&bin_bytes, data + size - 8, 8);
    attempt([&] { return llmc::parse_megatron_index(file.first(size - 8), bin_bytes, "fuzz"); }, bin_bytes);
  }
  attempt([&] { return llmc::parse_megatron_index(file, 14, "fuzz"); }, 14);
  return 0;
}
