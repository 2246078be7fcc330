// libFuzzer target: tokenizer models. Any bytes give a usable tokenizer or a Failure, within the memory limit.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "data/tokenizer.h"
#include "error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const llmc::Tokenizer tokenizer(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    const std::string text("def f(x):\n\treturn x  # \xc3\xa9 \xff \0 \xe2\x96\x81 it's 1234 ab<think> \r\n", 56);
    if (!tokenizer.encodes()) return 0;
    const std::string back = tokenizer.decode(tokenizer.encode(text));
    if (tokenizer.exact() && back != text) std::abort();
  } catch (const llmc::Failure& failure) {
    if (failure.code() != llmc::Exit::data) std::abort();
  }
  return 0;
}
