// libFuzzer target: TensorBoard event files, which a resume truncates. The low bits of the first byte are the step to
// go back to. With its highest bit the rest are messages, each after a 0x1e, from which records are made; otherwise the
// rest is the file.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "run/event.h"

namespace {

void check(bool condition) {
  if (!condition) std::abort();
}

llmc::KeptEvents kept(const std::string& file, std::int64_t step) {
  std::istringstream in(file);
  return llmc::kept_events(in, file.size(), step);
}

std::string records(std::string_view messages) {
  std::string file;
  while (!messages.empty()) {
    const std::size_t end = messages.find('\x1e');
    file += llmc::event_record(messages.substr(0, end));
    messages.remove_prefix(end == std::string_view::npos ? messages.size() : end + 1);
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::int64_t step = data[0] & 0x7f;
  const std::string file = data[0] & 0x80 ? records(text) : std::string(text);

  const llmc::KeptEvents first = kept(file, step);
  check(first.bytes <= file.size());
  // The remaining file is complete and can be appended to.
  std::string left = file.substr(0, first.bytes);
  const llmc::KeptEvents again = kept(left, step);
  check(again.bytes == left.size() && again.has_values == first.has_values && !again.damaged);
  left += llmc::event_record(llmc::scalars_event(1, step, std::vector<llmc::Scalar>{{"a", 1}}));
  check(kept(left, step).bytes == left.size());
  check(kept(left, step - 1).bytes <= first.bytes);
  return 0;
}
