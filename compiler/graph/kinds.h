// Kinds of layers: what layers of one model may differ in beside their weights.
#pragma once

#include <vector>

namespace llmc::spec {
struct Spec;
}

namespace llmc::graph {

/// Parameters and activations of all kinds have the same shapes.
struct LayerKind {
  int window = 0;  // keys that a query sees, itself the last; 0: all up to it

  bool operator==(const LayerKind&) const = default;
};

/// Of each layer, as the spec has it. A window of the sequence's length or more is none.
std::vector<LayerKind> kinds_of(const spec::Spec& spec);

/// Each of `kinds` once, in the order of its first layer.
std::vector<LayerKind> distinct(const std::vector<LayerKind>& kinds);

}  // namespace llmc::graph
