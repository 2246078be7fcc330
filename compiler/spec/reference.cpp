#include <fmt/format.h>

#include "compiler/spec/documentation.h"
#include "spec/schema/schema.h"

namespace llmc::spec {
namespace {

std::string default_text(const Key& key) {
  if (key.required) return key.required_unless.empty() ? "required" : "required without `" + key.required_unless + "`";
  if (!key.follows.empty()) return fmt::format("`{}`; with `{}` {}", key.fallback, key.follows, key.derivation);
  if (!key.derivation.empty()) return key.derivation;
  return key.fallback.empty() ? "none" : "`" + key.fallback + "`";
}

std::string row(const Key& key) {
  Key quoted = key;
  for (std::string& word : quoted.words) word = "`" + word + "`";
  std::string what = key.type == Type::bytes ? "a size such as `80GiB`, or a device name" : expectation(quoted);
  std::string doc = key.doc;
  std::string others;
  for (const std::string& value : key.when_also)
    others += (&value == &key.when_also.back() ? " or `" : ", `") + value + "`";
  if (!key.when_key.empty())
    doc += key.when_value == "*" ? fmt::format(" Only with `{}`.", key.when_key)
                                 : fmt::format(" Only with `{}: {}`{}.", key.when_key, key.when_value, others);
  if (!key.unit.empty()) what += fmt::format(" ({})", key.unit);
  const char* stage = key.stage == Stage::run_time   ? "run time"
                      : key.stage == Stage::compiled ? "compiled in"
                                                     : "label";
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", key.path, what, default_text(key), stage, doc);
}

std::string group_of(const Key& key) {
  const std::size_t dot = key.path.find('.');
  return dot == std::string::npos ? "" : key.path.substr(0, dot);
}

std::string section(const Schema& schema, const std::string& group) {
  const KeyGroup* found = schema.find_group(group);
  std::string text = fmt::format("\n## {}\n\n{}| key | value | default | when | meaning |\n|---|---|---|---|---|\n",
                                 group.empty() ? "The run" : group, found ? found->doc + "\n\n" : "");
  for (const Key& key : schema.keys()) {
    if (group_of(key) != group) continue;
    text += row(key);
    for (const Key& member : key.members)
      if (member.leaf() != key.shorthand) text += row(member);
  }
  return text;
}

}  // namespace

std::string reference_markdown(const Schema& schema) {
  std::string text =
      "# Every key of a spec\n\n"
      "Written by `llmc schema --markdown` from the table that also parses specs (runtime/spec/schema).\n\n"
      "*Compiled in*: changing it makes another trainer. *Run time*: the trainer takes it as `key.path=value` when it "
      "starts.\n"
      "`extends: base.yaml` (relative to the file) takes every key that is not given from another spec: maps merge, "
      "lists replace.\n"
      "Whole numbers may have `_` between digits and end in K, M, G (powers of 1000) or Ki, Mi, Gi (powers of 1024).\n";
  // Keys outside of a group first: they stand at the top of a spec and at its end.
  text += section(schema, "");
  std::string group;
  for (const Key& key : schema.keys()) {
    const std::string next = group_of(key);
    if (next.empty() || next == group) continue;
    group = next;
    text += section(schema, group);
  }
  return text;
}

}  // namespace llmc::spec
