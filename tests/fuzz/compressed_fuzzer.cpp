// libFuzzer target: compressed text. Any bytes give the same text in whole and by lines, in any pieces, or a Failure.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "compiler/tools/dataset/text_reader.h"
#include "error.h"

namespace {

using llmc::data::Compression;
using llmc::data::TextReader;

constexpr std::size_t kLongest = 1 << 16;

TextReader reader(std::span<const std::uint8_t> bytes, Compression compression, std::size_t step) {
  return TextReader(
      [bytes, step](std::span<char> out) mutable {
        const std::size_t count = std::min({out.size(), step, bytes.size()});
        std::copy_n(bytes.begin(), count, out.begin());
        bytes = bytes.subspan(count);
        return count;
      },
      compression, "fuzz", kLongest);
}

/// The text; "failed" with false if the stream cannot be read.
template <typename Read>
bool attempt(std::string& text, Read read) {
  try {
    text = read();
    return true;
  } catch (const llmc::Failure& failure) {
    if (failure.code() != llmc::Exit::data) std::abort();
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const Compression compression = data[0] & 1 ? Compression::zstd : Compression::gzip;
  const std::size_t step = std::max<std::size_t>(data[1], 1);
  const std::span<const std::uint8_t> bytes(data + 2, size - 2);
  std::string whole, joined;
  const bool read = attempt(whole, [&] { return reader(bytes, compression, 1 << 20).rest(); });
  const bool by_lines = attempt(joined, [&] {
    TextReader lines = reader(bytes, compression, step);
    std::string all;
    for (std::string line; lines.line(line) && all.size() <= kLongest;) all += line + "\n";
    return all;
  });
  if (!read) return 0;  // lines may be short enough in a text that is too long
  if (!by_lines || (joined != whole && joined != whole + "\n")) std::abort();
  return 0;
}
