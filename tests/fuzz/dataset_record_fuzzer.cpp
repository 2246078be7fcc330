// libFuzzer target: dataset.json. Any bytes give a record whose files stay in the folder, or a Failure.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "data/dataset_record.h"
#include "error.h"

namespace {

void check(const llmc::DatasetSide& side) {
  if (side.documents < 0 || side.bytes < 0 || side.tokens < 0) std::abort();
  for (const llmc::DatasetShard& shard : side.shards)
    if (shard.file.empty() || shard.file.find('/') != std::string::npos || shard.file == ".." || shard.tokens < 0 ||
        shard.documents < -1 || shard.max_id < -1 || (!shard.xxh3.empty() && shard.xxh3.size() != 16))
      std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const llmc::DatasetRecord record = llmc::parse_dataset_record({reinterpret_cast<const char*>(data), size}, "fuzz");
    check(record.train);
    check(record.validation);
    if (record.separator_id < -1 || record.tokenizer.empty()) std::abort();
  } catch (const llmc::Failure& failure) {
    if (failure.code() != llmc::Exit::data) std::abort();
  }
  return 0;
}
