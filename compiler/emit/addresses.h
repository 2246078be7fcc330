// Prints the addresses of tensors in the emitted step: C++ expressions for offsets in the arena, and the constants that
// they use.
#pragma once

#include <set>
#include <string>

#include "compiler/emit/printer.h"
#include "compiler/plan/plan.h"

namespace llmc::emit {

class Addresses {
 public:
  explicit Addresses(const plan::Plan& plan) : plan_(plan), g_(plan.graph) {}

  /// Returns a tensor's address in a region, an expression in bytes from the arena's start. It uses the constants of
  /// print_places() and members of struct Step.
  std::string address(std::size_t region, graph::TensorId id);
  /// Returns the address of an area of the layout (plan::ArenaLayout::areas).
  std::string area_address(std::size_t area);
  /// Returns the step's name of a tensor. A copy has its parameter's name, because no function reads both.
  std::string name(graph::TensorId id) const;

  /// Whether some addresses depend on the rank and so are members of struct Step: shards and gather buffers.
  bool has_shared() const { return !shared_.empty() || windows_; }
  bool has_whole() const { return whole_; }

  /// Prints the constants of the addresses that were requested.
  void print_places(SourceWriter& out) const;

 private:
  std::string area_name(std::size_t area) const { return constant_name(plan_.layout.areas[area].name); }
  std::string in_flat(graph::TensorId id);
  std::string window(graph::TensorId bucket, const std::string& inside);
  graph::TensorId flat_of(graph::TensorId id) const;
  graph::TensorId bucket_in(graph::TensorId flat, graph::Block block) const;

  const plan::Plan& plan_;
  const graph::Graph& g_;
  std::set<std::size_t> used_;    // indices into ArenaLayout::areas, by offset
  std::set<std::size_t> shared_;  // the sharded ones of these
  bool windows_ = false, whole_ = false;
};

}  // namespace llmc::emit
