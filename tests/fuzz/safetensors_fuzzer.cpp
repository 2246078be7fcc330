// libFuzzer target: a safetensors header, parsed as if a file of the claimed size followed, and rewritten.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "checkpoint/safetensors_header.h"

using namespace llmc::safetensors;

/// Anything that the parser accepts must have no gaps, and written again must parse to the same tensors.
void check(const Header& header, std::uint64_t data_bytes) {
  std::vector<TensorSpec> specs;
  std::uint64_t position = 0;
  for (const Entry& entry : header.entries) {
    if (entry.begin != position || entry.end < entry.begin) std::abort();
    position = entry.end;
    specs.push_back({entry.name, entry.dtype, entry.shape});
  }
  if (position != data_bytes) std::abort();

  const std::vector<Entry> entries = layout(specs);
  const std::string text = format_header(entries);
  if (text.size() % 8 != 0) std::abort();
  const Header again = parse_header(std::string_view(text).substr(8), data_bytes);
  if (again.entries.size() != entries.size()) std::abort();
  for (const Entry& entry : entries) {
    bool found = false;
    for (const Entry& other : again.entries)
      found = found || (other.name == entry.name && other.shape == entry.shape && other.dtype == entry.dtype &&
                        other.begin == entry.begin && other.end == entry.end);
    if (!found) std::abort();
  }
}

/// Input: two bytes of data size, then the header's JSON. A fuzzer can only hit small sizes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return -1;
  const std::uint64_t data_bytes = data[0] | static_cast<std::uint64_t>(data[1]) << 8;
  try {
    check(parse_header({reinterpret_cast<const char*>(data) + 2, size - 2}, data_bytes), data_bytes);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
