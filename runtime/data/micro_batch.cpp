#include "data/micro_batch.h"

#include <algorithm>

namespace llmc {

void set_row(MicroBatch& batch, std::int64_t row, std::span<const std::int32_t> sample) {
  const auto length = static_cast<std::int64_t>(sample.size()) - 1;
  std::copy_n(sample.begin(), length, batch.inputs.begin() + row * length);
  std::copy_n(sample.begin() + 1, length, batch.targets.begin() + row * length);
}

MicroBatch without_targets(MicroBatch batch) {
  std::ranges::fill(batch.targets, -1);
  batch.target_count = 0;
  return batch;
}

void index_tokens(MicroBatch& batch, std::vector<std::int32_t>& counts) {
  const std::size_t n = batch.inputs.size();
  batch.order.assign(n, 0);
  batch.run_begin.assign(n + 1, 0);
  batch.run_token.assign(n, 0);
  const std::int32_t largest = n == 0 ? 0 : *std::ranges::max_element(batch.inputs);
  counts.assign(static_cast<std::size_t>(largest) + 1, 0);
  for (const std::int32_t token : batch.inputs) ++counts[static_cast<std::size_t>(token)];

  std::int32_t runs = 0, begin = 0;
  for (std::size_t token = 0; token < counts.size(); ++token) {
    if (counts[token] == 0) continue;
    const auto run = static_cast<std::size_t>(runs++);
    batch.run_token[run] = static_cast<std::int32_t>(token);
    batch.run_begin[run] = begin;
    const std::int32_t end = begin + counts[token];
    counts[token] = begin;  // from here on: next free slot of this token
    begin = end;
  }
  std::fill(batch.run_begin.begin() + runs, batch.run_begin.end(), begin);
  batch.run_count = runs;
  for (std::size_t position = 0; position < n; ++position)
    batch.order[static_cast<std::size_t>(counts[static_cast<std::size_t>(batch.inputs[position])]++)] =
        static_cast<std::int32_t>(position);
  batch.target_count =
      static_cast<std::int64_t>(std::ranges::count_if(batch.targets, [](std::int32_t target) { return target != -1; }));
}

}  // namespace llmc
