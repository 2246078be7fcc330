#include "compiler/tools/dataset/standard_input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "compiler/tools/dataset/corpus.h"
#include "compiler/tools/dataset/shard_writer.h"
#include "error.h"
#include "files/durable_file.h"

namespace llmc::data {

std::filesystem::path copy_standard_input(int descriptor, const std::filesystem::path& folder,
                                          const std::function<void(std::int64_t)>& progress) {
  const std::filesystem::path path = folder / kStandardInputCopy;
  DurableFile file(path, kDataWriter);
  std::vector<char> block(1 << 20);
  std::int64_t bytes = 0;
  while (true) {
    const ssize_t count = ::read(descriptor, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Failure(Exit::data, fmt::format("cannot read standard input: {}", std::strerror(errno)));
    if (count == 0) break;
    file.write(block.data(), static_cast<std::size_t>(count));
    bytes += count;
    if (progress) progress(bytes);
  }
  file.finish();
  return path;
}

}  // namespace llmc::data
