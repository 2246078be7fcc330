#include "train/constants.h"

#include <cmath>

#include "error.h"
#include "train/chunks.h"

namespace llmc {

std::vector<float> rope_table(std::int64_t sequence_length, std::span<const double> inverse_frequencies) {
  const std::size_t pairs = inverse_frequencies.size();
  std::vector<float> table(static_cast<std::size_t>(sequence_length) * 2 * pairs);
  for (std::int64_t position = 0; position < sequence_length; ++position) {
    float* row = table.data() + static_cast<std::size_t>(position) * 2 * pairs;
    for (std::size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(position) * inverse_frequencies[i];
      row[i] = static_cast<float>(std::cos(angle));
      row[pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

std::vector<InitRule> init_rules(std::span<const ParameterInfo> parameters) {
  std::vector<InitRule> rules;
  for (const ParameterInfo& p : parameters)
    rules.push_back({p.offset, p.rows, p.cols, p.pitch, p.key, p.init_std, p.init_value});
  return rules;
}

void upload_constants(Device& device, std::byte* arena, const ProgramInfo& info, bool decay_all) {
  const auto upload = [&](std::size_t offset, const auto& values) {
    device.copy_in(arena + offset, values.data(), values.size() * sizeof(values[0]));
  };
  const ChunkTable table = make_chunks(info.parameters, info.chunk_elements, decay_all);
  if (static_cast<std::int64_t>(table.chunks.size()) != info.chunk_count ||
      2 * static_cast<std::int64_t>(info.inverse_frequencies.size()) != info.head_dim)
    throw Failure(Exit::internal, "the trainer's plan and its tables of parameters disagree");
  upload(info.arena.rope_table, rope_table(info.sequence_length, info.inverse_frequencies));
  upload(info.arena.chunks, table.chunks);
  upload(info.arena.first_chunk, table.first_chunk);
  upload(info.arena.init_rules, init_rules(info.parameters));
}

}  // namespace llmc
