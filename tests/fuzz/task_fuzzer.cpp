// libFuzzer target: multiple-choice tasks. Any bytes give examples within the limits, or a Failure.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "data/bpe/byte_characters.h"
#include "data/tasks/task_file.h"
#include "error.h"

namespace {

/// A tokenizer whose ids are the bytes, and 256 ends a document.
std::string tokens_of_bytes() {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    std::string name = llmc::character_of_byte(static_cast<unsigned char>(byte));
    if (name == "\"" || name == "\\") name.insert(0, "\\");
    vocabulary += (byte ? ",\"" : "\"") + name + "\":" + std::to_string(byte);
  }
  return R"({"added_tokens":[{"id":256,"content":"</s>","special":true}],"decoder":{"type":"ByteLevel"},)"
         R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE","merges":[],"vocab":{)" +
         vocabulary + "}}}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const llmc::Tokenizer tokenizer(tokens_of_bytes(), "bytes");
  constexpr llmc::TaskLimits limits = {300, 64};
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"a.bin", "a.jsonl"}) try {
      for (const llmc::TaskExample& example : llmc::parse_task(content, name, &tokenizer, limits, 0)) {
        if (example.label < 0 || static_cast<std::size_t>(example.label) >= example.endings.size()) std::abort();
        for (const llmc::TaskEnding& ending : example.endings) {
          const auto count = static_cast<std::int64_t>(ending.tokens.size());
          if (ending.first < 1 || ending.first >= count || count > 65 || ending.length < 1) std::abort();
          for (const std::int32_t token : ending.tokens)
            if (token < 0 || token >= 300) std::abort();
        }
      }
    } catch (const llmc::Failure& failure) {
      if (failure.code() != llmc::Exit::data) std::abort();
    }
  return 0;
}
