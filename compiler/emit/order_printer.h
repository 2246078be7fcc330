// Prints in which order the step's passes call the functions of its regions, and what they wait for between them.
#pragma once

#include <string>

#include "compiler/emit/printer.h"
#include "compiler/plan/plan.h"

namespace llmc::emit {

/// The parameters of a region's function, or its arguments.
std::string region_parameters(const plan::Plan& plan, std::size_t region, bool declare);

class OrderPrinter {
 public:
  /// Both live longer.
  OrderPrinter(const plan::Plan& plan, Source& out)
      : plan_(plan), g_(plan.graph), out_(out), shard_(plan.spec.parallel.shard) {}

  bool has(graph::Part part) const;
  /// What the ranks' stream has to be done with before a pass goes on: a constant of marks(), of a layer one of two.
  /// Empty where nobody waits for it alone.
  std::string mark(graph::Part part, graph::Block block) const;

  /// Constants.
  void marks();
  /// void forward(Step&), which all passes begin with.
  void forward();
  /// gather_weights(), micro_batch(), optimizer_step(), evaluate() and next_logits() of Program.
  void passes();

 private:
  std::string mark_constant(graph::Part part, graph::Block block) const;
  bool has(graph::Part part, graph::Block block) const;
  std::size_t find(graph::Part part, graph::Block block) const;
  void call(std::size_t region);
  void calls(graph::Part part);
  void variant_calls(graph::Part part);
  void reduce(graph::Block block);
  void gather(graph::Block block, const char* layer = "");
  void await(graph::Part part, graph::Block block);
  void await_window(graph::Block block);
  template <class Print>
  void where_gathering(Print print);
  void gather_weights();
  bool gathers_always() const;
  const char* gather_argument(const char* when) const;

  const plan::Plan& plan_;
  const graph::Graph& g_;
  Source& out_;
  const Shard shard_;
};

}  // namespace llmc::emit
