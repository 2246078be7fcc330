// libFuzzer target: any bytes as a spec, with the bytes after each 0x1e as an override.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "compiler/spec/codes.h"
#include "compiler/spec/huggingface.h"
#include "compiler/spec/load.h"
#include "error.h"
#include "spec/fingerprint.h"
#include "spec/huggingface/families.h"
#include "spec/print.h"

namespace {

void check(bool condition) {
  if (!condition) std::abort();
}

/// A base file that fuzzed specs may extend, so that merging is reached.
std::optional<std::string> read_base(const std::string& path) {
  if (path == "base.yaml")
    return "name: base\nmodel: {vocab_size: 64, hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4}\ndata: "
           "{train: [{path: a.bin}]}\n";
  if (path == "self.yaml") return "extends: self.yaml\n";
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace llmc::spec;
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] == 0x1e)
      parts.emplace_back();
    else
      parts.back() += static_cast<char>(data[i]);
  }
  const std::string text = parts[0];
  parts.erase(parts.begin());

  const LoadResult result = load_text(text, "fuzz.yaml", parts, read_base);
  check(result.resolved.has_value() == result.diagnostics.empty());
  const std::string shown = render(result.diagnostics);
  for (char c : shown)
    check(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));  // no terminal control characters
  to_json(result.diagnostics);
  for (const Diagnostic& d : result.diagnostics) check(explain(d.code).has_value());
  if (result.resolved) {
    // An accepted spec prints to a text with the same meaning.
    const std::string yaml = to_yaml(*result.resolved, true);
    const LoadResult again = load_text(yaml, "again.yaml");
    check(again.resolved.has_value());
    check(fingerprint(again.resolved->spec) == fingerprint(result.resolved->spec));
    check(to_yaml(*again.resolved, false) == to_yaml(*result.resolved, false));
    keys_json(*result.resolved);
    const std::string config = config_json(result.resolved->spec);
    if (family_of(result.resolved->spec.model)) from_huggingface(config, "fuzz");
  } else {
    try {
      from_huggingface(text, text);
    } catch (const llmc::Failure&) {
    }
  }
  return 0;
}
