// libFuzzer target: tokenizer.json. Any bytes give a vocabulary with tables of equal length, or a Failure.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "data/tokenizer_json.h"
#include "error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const llmc::JsonVocabulary found = llmc::parse_tokenizer_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (found.names.empty() || found.names.size() != found.bytes_of.size() || found.names.size() > 1 << 20)
      std::abort();
    if (found.separator >= static_cast<std::int64_t>(found.names.size()) || found.separator < -1) std::abort();
    if (found.separator >= 0 && !found.bytes_of[static_cast<std::size_t>(found.separator)].empty()) std::abort();
  } catch (const llmc::Failure& failure) {
    if (failure.code() != llmc::Exit::data) std::abort();
  }
  return 0;
}
