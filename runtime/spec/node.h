// Tree of a spec's text: maps, lists and scalars with their locations, independent of the parser.
#pragma once

#include <string>
#include <vector>

#include "spec/diagnostics.h"
#include "spec/source.h"

namespace llmc::spec {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxNodes = 20000;
constexpr int kMaxDepth = 32;

struct Member;

struct KeyText {
  std::string text;
  Span span;
};

/// `bad` nodes have already been reported and are skipped silently.
struct Node {
  enum class Kind { null, scalar, list, map, bad };
  Kind kind = Kind::null;
  std::string text;   // scalar: its content, escapes resolved
  bool plain = true;  // scalar: not quoted
  Span span;
  std::vector<Node> items;
  std::vector<Member> members;  // in file order, keys unique

  Node* find(const std::string& key);
  const Node* find(const std::string& key) const;
};

struct Member {
  KeyText key;
  Node value;
};

/// Checks whether a text may be read at all: at most 1 MiB of strict UTF-8 without control characters. Reports errors.
bool check_bytes(const Source& source, std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
