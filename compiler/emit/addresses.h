// Where the emitted step finds its tensors: places in the arena as text, and the constants that they are made of.
#pragma once

#include <set>
#include <string>

#include "compiler/emit/printer.h"
#include "compiler/plan/plan.h"

namespace llmc::emit {

class Addresses {
 public:
  explicit Addresses(const plan::Plan& plan) : plan_(plan), g_(plan.graph) {}

  /// Of a tensor in a region: bytes from the arena's start, in words of print_places() and of struct Step.
  std::string address(std::size_t region, graph::TensorId id);
  /// Of a buffer's area.
  std::string area_address(std::size_t area);
  /// What the step calls a tensor. A copy goes by its parameter's name: no function reads both.
  std::string name(graph::TensorId id) const;

  /// Whether addresses are of places that only struct Step knows: shares, windows.
  bool has_shared() const { return !shared_.empty() || windows_; }
  bool has_whole() const { return whole_; }

  /// Constants for what addresses were asked of.
  void print_places(Source& out) const;

 private:
  std::string area_name(std::size_t area) const { return constant_name(plan_.layout.areas[area].name); }
  std::string in_flat(graph::TensorId id);
  std::string window(graph::TensorId bucket, const std::string& inside);
  graph::TensorId flat_of(graph::TensorId id) const;
  graph::TensorId bucket_in(graph::TensorId flat, graph::Block block) const;

  const plan::Plan& plan_;
  const graph::Graph& g_;
  std::set<std::size_t> used_;    // of Layout::areas, by offset
  std::set<std::size_t> shared_;  // of these, those that ranks share out
  bool windows_ = false, whole_ = false;
};

}  // namespace llmc::emit
