// Kinds of layers: properties, other than their weights, in which layers of one model may differ.
#pragma once

#include <vector>

namespace llmc::spec {
struct Spec;
}

namespace llmc::graph {

/// Attributes of a kind. Parameters and activations of all kinds have the same shapes.
struct LayerKind {
  int window = 0;              // keys that a query sees, including itself; 0: all keys up to it
  bool rope = true;            // q and k are rotated by their positions
  bool local_rope = false;     // by the angles of rope_local_theta
  bool wide_products = false;  // with precision.matmul: fp8: its products stay in the compute dtype

  bool operator==(const LayerKind&) const = default;
};

/// Returns the kind of each layer by the spec. A window of at least the sequence's length becomes 0.
std::vector<LayerKind> kinds_of(const spec::Spec& spec);

/// Removes duplicates from `kinds`, in the order of first layers.
std::vector<LayerKind> distinct(const std::vector<LayerKind>& kinds);

}  // namespace llmc::graph
