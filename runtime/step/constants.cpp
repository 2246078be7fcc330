#include "step/constants.h"

#include <fmt/format.h>

#include <cmath>

#include "error.h"
#include "program/chunks.h"

namespace llmc {

std::vector<float> rope_table(std::int64_t sequence_length, std::span<const double> inverse_frequencies, double scale,
                              bool interleaved) {
  const std::size_t pairs = inverse_frequencies.size();
  std::vector<float> table(static_cast<std::size_t>(sequence_length) * 2 * pairs);
  for (std::int64_t position = 0; position < sequence_length; ++position) {
    float* row = table.data() + static_cast<std::size_t>(position) * 2 * pairs;
    for (std::size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(position) * inverse_frequencies[i];
      row[interleaved ? 2 * i : i] = static_cast<float>(scale * std::cos(angle));
      row[interleaved ? 2 * i + 1 : pairs + i] = static_cast<float>(scale * std::sin(angle));
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

void upload_constants(Device& device, std::byte* arena, const ProgramInfo& info, const Shares& shares) {
  const auto upload = [&](Use use, const auto& values) {
    const Buffer* to = find_buffer(info.buffers, use);
    if (!to) return;  // no kernel of this run reads it
    if (to->bytes() != values.size() * sizeof(values[0]))
      throw Failure(Exit::internal, fmt::format("the trainer's plan and its {} disagree", to->name));
    device.copy_in(arena + to->offset, values.data(), to->bytes());
  };
  const ChunkTable chunks = make_chunks(info.parameters, info.chunk_elements, shares);
  const auto table = [&](std::span<const double> frequencies, double scale) {
    return rope_table(info.sequence_length, frequencies, scale, info.rope_interleaved);
  };
  upload(Use::rope_table, table(info.inverse_frequencies, info.rope_scale));
  upload(Use::local_rope_table, table(info.local_inverse_frequencies, 1));
  if (const Buffer* ones = find_buffer(info.buffers, Use::ones))
    upload(Use::ones, std::vector<float>(static_cast<std::size_t>(ones->elements), 1));
  upload(Use::chunks, chunks.chunks);
  upload(Use::first_chunk, chunks.first_chunk);
  upload(Use::init_rules, init_rules(info.parameters));
}

}  // namespace llmc
