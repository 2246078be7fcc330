// Values of the interpreter: tensors as matrices of float64, and one run of one op over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/graph/graph.h"
#include "program/dtype.h"

namespace llmc::float64 {

/// Row-major [rows, cols], `pitch` elements from row to row; another object owns the elements.
struct Matrix {
  double* data = nullptr;
  std::int64_t rows = 0, cols = 0, pitch = 0;

  double* row(std::int64_t i) const { return data + i * pitch; }
  double& at(std::int64_t i, std::int64_t j) const { return data[i * pitch + j]; }
};

inline constexpr double kFp32 = row_of(DType::f32).roundoff, kBf16 = row_of(DType::bf16).roundoff;

/// Kernels may flush numbers below the smallest normal one of fp32 and bf16 to 0, so smaller differences do not count.
inline constexpr double kFlushed = 0x1p-126;

/// An operand of an op. Integers are float64 too, which holds them exactly.
struct OpValue {
  Matrix matrix;
  std::span<std::byte> records;  // of a tensor of structs of device/types.h, instead of the matrix

  // The tolerance of a result: how far a kernel, whose arithmetic is fp32, may be from it before its own
  // rounding. |error| <= relative * |element| + noise * scale of the element's part of its row + flushed.
  double relative = 8 * kFp32;
  double noise = 8 * kFp32;
  double flushed = 0;              // an error of each element besides: of terms that are flushed to 0
  std::vector<double> scale = {};  // [rows, parts], parts of equal width; empty: 0
  std::int64_t parts = 1;
  bool sums_alone = false;  // the op may distribute terms over rows freely: only its columns' sums count
  bool partial = false;     // sums of such distributed terms
  bool undefined = false;   // scratch of the kernel
  bool exact = false;       // every kernel gives these very numbers
  // [rows, cols]: what a kernel may give at least and at most, if its result is rounded to e4m3 after arithmetic in
  // fp32; otherwise empty.
  std::vector<double> least = {}, most = {};

  double scale_at(std::int64_t i, std::int64_t j) const {
    return scale.empty() ? 0 : scale[static_cast<std::size_t>(i * parts + j / (matrix.cols / parts))];
  }
  /// Returns one scale for each of `count` parts of a row; all 0.
  std::vector<double>& scales(std::int64_t count = 1) {
    parts = count;
    scale.assign(static_cast<std::size_t>(matrix.rows * count), 0.0);
    return scale;
  }
};

/// One run of an op: its operands in the order of the graph, which its rule reads and writes.
struct OpRun {
  const graph::Graph& graph;
  const graph::Region& region;
  const graph::Op& op;
  std::vector<OpValue> inputs, outputs;
  bool adds = false;       // to what earlier micro-batches and chunks of the step left
  std::uint64_t seed = 0;  // of initialise
  double left_out = 0;     // of each term of a product, relative to it: kBf16x3, kTf32, kFp8Accumulation, or nothing
  std::int64_t state_begin = 0;  // of an update: Chunk::state of the first element of its optimizer's state
  std::int64_t layer = 0;        // of a layer's region
  double cut = 0;                // of a product, relative to its largest results: cut_by_fast_accumulation()

  const Matrix& in(std::size_t i) const { return inputs.at(i).matrix; }
  const Matrix& out(std::size_t i) const { return outputs.at(i).matrix; }
  DType input_type(std::size_t i) const { return graph.at(op.inputs.at(i)).dtype; }
  template <class T>
  T* records_in(std::size_t i) const {
    return reinterpret_cast<T*>(inputs.at(i).records.data());
  }
  template <class T>
  T* records_out(std::size_t i) const {
    return reinterpret_cast<T*>(outputs.at(i).records.data());
  }
};

}  // namespace llmc::float64
