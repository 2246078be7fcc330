// Strict YAML: maps, lists and scalars with the span of every key and value, and nothing else of the language.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/spec/diagnostics.h"
#include "compiler/spec/source.h"

namespace llmc::spec {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxNodes = 20000;
constexpr int kMaxDepth = 32;

struct Member;

struct KeyText {
  std::string text;
  Span span;
};

/// `bad` nodes have been complained about already and are skipped in silence.
struct Node {
  enum class Kind { null, scalar, list, map, bad };
  Kind kind = Kind::null;
  std::string text;   // scalar: its content, escapes resolved
  bool plain = true;  // scalar: not quoted
  Span span;
  std::vector<Node> items;
  std::vector<Member> members;  // in the order of the file, keys unique

  Node* find(const std::string& key);
  const Node* find(const std::string& key) const;
};

struct Member {
  KeyText key;
  Node value;
};

/// Reads one document starting at `offset` of the source. Appends what is wrong to `diagnostics`; nothing is returned
/// when the text is not YAML at all, is not UTF-8 or passes a limit (1 MiB, 20,000 nodes, depth 32).
std::optional<Node> read_yaml(const Source& source, std::vector<Diagnostic>& diagnostics, std::size_t offset = 0);

}  // namespace llmc::spec
