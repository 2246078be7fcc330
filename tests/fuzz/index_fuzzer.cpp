// libFuzzer target: model.safetensors.index.json. An accepted index only names files in its own folder.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "checkpoint/model_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto files = llmc::parse_model_index({reinterpret_cast<const char*>(data), size});
    if (files.empty()) std::abort();
    for (const auto& [tensor, file] : files)
      if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos ||
          file.find('\0') != std::string::npos)
        std::abort();
  } catch (const std::invalid_argument& error) {
    if (!*error.what()) std::abort();
  }
  return 0;
}
