// Computes what a trainer's host writes for its ops: tables of RoPE and of parameters, targets, borders of documents,
// orders of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/tools/float64/compare.h"
#include "compiler/tools/float64/operands.h"

namespace llmc::float64 {

/// Returns the cosines and sines of RoPE, [sequence, rotary_dim()], from the numbers of the spec. `local`: those of
/// rope_local_theta.
std::vector<double> rope_angles(const spec::Model& model, std::int64_t sequence, bool local);

/// Checks what the host writes against the spec and the tokens of the micro-batch.
class HostValues {
 public:
  explicit HostValues(const plan::Plan& plan) : plan_(plan) {}

  /// Compares an operand with what the host should have written; of a table of records, Worst has the record and the
  /// number of its field. Nothing if that is not known: for tokens, which it keeps, and for scalars. A sequence's last
  /// target is in no other operand, and may be any.
  std::optional<Worst> check(const ScheduledOp& launch, graph::TensorId id, const OpValue& found);

 private:
  std::optional<Worst> check_elements(const ScheduledOp& launch, graph::TensorId id, const Matrix& found) const;
  std::optional<Worst> check_chunks(std::span<const std::byte> records) const;
  std::optional<Worst> check_init_rules(std::span<const std::byte> records) const;
  double deviation(const plan::Slice& slice) const;
  std::vector<double> first_chunks() const;
  std::vector<double> targets() const;
  std::vector<double> borders(bool ends) const;
  std::vector<std::int64_t> by_token() const;
  std::vector<double> runs(Use use) const;

  const plan::Plan& plan_;
  std::vector<std::int64_t> tokens_;  // of the micro-batch
};

}  // namespace llmc::float64
