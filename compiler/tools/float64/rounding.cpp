#include "compiler/tools/float64/rounding.h"

#include <cmath>

#include "compiler/ops/op.h"
#include "compiler/tools/float64/compare.h"

namespace llmc::float64 {

/// The finaliser of MurmurHash3 (Appleby).
double scattered(std::uint64_t index) {
  index = (index ^ index >> 33) * 0xff51afd7ed558ccd;
  index = (index ^ index >> 33) * 0xc4ceb9fe1a85ec53;
  return static_cast<double>(index >> 11) * 0x1p-52 - 1;
}

void Rounding::add(OpRun& run) {
  const ops::InputSet changed = ops::row_of(run.op.kind).changes;
  for (std::size_t i = 0; i < run.inputs.size(); ++i)
    if (changed >> i & 1) add(run.inputs[i], run.input_type(i));
  for (std::size_t i = 0; i < run.outputs.size(); ++i) add(run.outputs[i], run.graph.at(run.op.outputs[i]).dtype);
}

void Rounding::add(OpValue& value, DType stored) {
  // Codes follow from rows that have errors.
  if (value.undefined || value.exact || !value.records.empty() || !value.least.empty()) return;
  const Matrix& m = value.matrix;
  for (std::int64_t i = 0; i < (value.sums_alone ? 1 : m.rows); ++i)
    for (std::int64_t j = 0; j < m.cols; ++j)
      if (double& e = m.at(i, j); std::isfinite(e)) e += scattered(++drawn_) * allowed(value, i, j, e, stored);
}

}  // namespace llmc::float64
