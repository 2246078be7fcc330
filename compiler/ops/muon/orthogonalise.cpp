// Orthogonalises a matrix by iterations of Newton and Schulz (Jordan et al. 2024; coefficients of polar_express: Amsel
// et al. 2025): X <- a X + (b A + c A A) X with A = X X^T, or from the right side if X has more rows than columns. All
// singular values go towards 1.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/ops/instance.h"
#include "compiler/ops/muon/muon.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

bool is_gradient(const Tensor& t) { return t.role == Role::gradient; }

/// A matrix, all of the tensor or, of a gradient, its part.
std::int64_t rows_of(const Tensor& t, const MatrixRows& rows) { return is_gradient(t) ? rows.count : t.rows; }

Argument argument(const Context& c, TensorId id, const MatrixRows& rows) {
  const Tensor& t = c.graph.at(id);
  if (!is_gradient(t) || rows.first == 0) return id;
  return fmt::format("{} + {}", t.name, rows.first * t.pitch);
}

std::string shape_text(std::int64_t rows, std::int64_t cols) { return fmt::format("{}_{}", rows, cols); }

double matrix_bytes(const Tensor& t, std::int64_t rows) {
  return static_cast<double>(bytes_of(t.dtype, rows * t.cols));
}

/// matrix -> the L2 norm of each row
void norms_signature(const Operands& o) {
  o.count(1, 1);
  o.expect(o.out(0).cols == rows_of(o.in(0), o.op.as<MatrixRows>()), "a norm for each row");
}

std::vector<Work> norms_work(const Context& c) {
  const MatrixRows& part = c.op.as<MatrixRows>();
  const Tensor& x = c.in(0);
  const std::int64_t rows = rows_of(x, part);
  return {Instance(c, "row_norms")
              .named(shape_text(rows, x.cols) + (is_gradient(x) ? "_momentum" : "_result"))
              .element(x.dtype)
              .matrix(x, rows, "model")
              .costs(matrix_bytes(x, rows) + 4.0 * static_cast<double>(rows), 2.0 * static_cast<double>(rows * x.cols))
              .rows(rows, x.cols, x.dtype, {argument(c, c.op.inputs[0], part), c.op.outputs[0]})};
}

/// norms of rows, Muon's scalars -> a factor for each row
void factors_signature(const Operands& o) {
  o.count(2, 1);
  o.same_shape(o.in(0), o.out(0));
}

/// Of one group of parameters.
Argument scalars_of(const Context& c, TensorId scalars, int group) {
  return group == 0 ? Argument(scalars) : Argument(fmt::format("{} + {}", c.graph.at(scalars).name, group));
}

std::vector<Work> factors_work(const Context& c) {
  const auto& [group, cols, of_result, polar_express] = c.op.as<FactorAttributes>();
  const std::int64_t rows = c.in(0).cols;
  const Argument scalars = scalars_of(c, c.op.inputs[1], group);
  Instance instance(c, "muon_factors");
  instance.named(shape_text(rows, cols)).integer("kRows", rows, "model").integer("kCols", cols, "model");
  return {instance.flag("kResult", of_result, "result", "optimizer.kind")
              .flag("kPolarExpress", polar_express, "polar_express", "optimizer.muon.coefficients")
              .costs(8.0 * static_cast<double>(rows), 4.0 * static_cast<double>(rows))
              .rows(1, rows, DType::f32, {c.op.inputs[0], scalars, c.op.outputs[0]})};
}

/// norms of rows, Muon's scalars, results, moments of all layers' rows -> a factor for each row
void neurons_signature(const Operands& o) {
  o.count(kNeuronMoments + 1, 1);
  o.same_shape(o.in(kNeuronNorms), o.out(0));
}

std::vector<Work> neurons_work(const Context& c) {
  const auto& [group, cols, rows_before, layer_rows] = c.op.as<NeuronAttributes>();
  const auto& in = c.op.inputs;
  const std::int64_t rows = c.in(kNeuronNorms).cols;
  return {Instance(c, "neuron_factors")
              .named(shape_text(rows, cols))
              .integer("kRows", rows, "model")
              .integer("kCols", cols, "model")
              .costs(16.0 * static_cast<double>(rows), 16.0 * static_cast<double>(rows))
              .rows(1, rows, DType::f32,
                    {in[kNeuronNorms], scalars_of(c, in[kNeuronScalars], group), in[kNeuronResults],
                     row_state(c.in(kNeuronMoments).name, rows_before, layer_rows), c.op.outputs[0]})};
}

/// matrix, factors -> matrix: each row times its factor. One of both matrices is a gradient.
void scale_signature(const Operands& o) {
  o.count(2, 1);
  const MatrixRows& part = o.op.as<MatrixRows>();
  o.expect(is_gradient(o.in(0)) != is_gradient(o.out(0)), "from or to a gradient");
  o.expect(o.in(0).cols == o.out(0).cols && o.in(0).pitch == o.out(0).pitch, "rows are as wide");
  o.expect(rows_of(o.in(0), part) == part.count && rows_of(o.out(0), part) == part.count && o.in(1).cols == part.count,
           "a factor for each row");
}

std::vector<Work> scale_work(const Context& c) {
  const MatrixRows& part = c.op.as<MatrixRows>();
  const Tensor &x = c.in(0), &y = c.out(0);
  return {Instance(c, "scale_rows")
              .named(shape_text(part.count, x.cols) + (is_gradient(x) ? "_momentum" : "_result"))
              .element(x.dtype, "Source")
              .element(is_gradient(x) ? y.dtype : x.dtype)
              .element(y.dtype, "Result")
              .matrix(x, part.count, "model")
              .costs(matrix_bytes(x, part.count) + matrix_bytes(y, part.count) + 4.0 * static_cast<double>(part.count),
                     static_cast<double>(part.count * x.cols))
              .rows(part.count, x.cols, is_gradient(x) ? y.dtype : x.dtype,
                    {argument(c, c.op.inputs[0], part), c.op.inputs[1], argument(c, c.op.outputs[0], part)})};
}

/// a, b, [c] -> alpha op(a) op(b) + beta c
void product_signature(const Operands& o) {
  const auto& [name, transpose_a, transpose_b, alpha, beta] = o.op.as<ProductAttributes>();
  o.count(beta != 0 ? 3 : 2, 1);
  const Tensor &a = o.in(0), &b = o.in(1), &d = o.out(0);
  const auto rows = [](const Tensor& t, bool transposed) { return transposed ? t.cols : t.rows; };
  o.expect(rows(a, !transpose_a) == rows(b, transpose_b), "a and b differ along the sum");
  o.expect(d.rows == rows(a, transpose_a) && d.cols == rows(b, !transpose_b), "%{} has another shape", d.name);
  if (beta != 0) o.same_shape(o.in(2), d);
}

std::vector<Work> product_work(const Context& c) {
  const auto& [name, transpose_a, transpose_b, alpha, beta] = c.op.as<ProductAttributes>();
  const Tensor &a = c.in(0), &b = c.in(1), &d = c.out(0);
  const GemmShape shape = {.m = d.rows,
                           .n = d.cols,
                           .k = transpose_a ? a.rows : a.cols,
                           .transpose_a = transpose_a,
                           .transpose_b = transpose_b,
                           .pitch_a = a.pitch,
                           .pitch_b = b.pitch,
                           .pitch_d = d.pitch,
                           .operand = a.dtype,
                           .result = d.dtype,
                           .alpha = static_cast<float>(alpha),
                           .beta = beta != 0 ? static_cast<float>(beta) : 1.0f,
                           .residual = beta != 0};
  Work work{.call = Call::product, .product = {.name = name, .shape = shape}};
  work.product.flops = work.flops = shape.flops();
  work.product.bytes = work.bytes = shape.bytes();
  work.arguments = {Argument(c.op.inputs[0]).as("a"), Argument(c.op.inputs[1]).as("b")};
  if (shape.residual) work.arguments.push_back(Argument(c.op.inputs[2]).as("c"));
  work.arguments.push_back(Argument(c.op.outputs[0]).as("d"));
  return {std::move(work)};
}

}  // namespace

std::string MatrixRows::text() const { return fmt::format("rows {} to {}", first, first + count - 1); }

std::string FactorAttributes::text() const {
  return fmt::format("group={} cols={}{}{}", group, cols, of_result ? " result" : "",
                     polar_express ? " polar_express" : "");
}

std::string NeuronAttributes::text() const {
  return fmt::format("group={} cols={} rows_before={} layer_rows={}", group, cols, rows_before, layer_rows);
}

std::string row_state(const std::string& state, std::int64_t rows_before, std::int64_t layer_rows) {
  return fmt::format("{} + layer * {}{}", state, layer_rows,
                     rows_before ? fmt::format(" + {}", rows_before) : std::string());
}

std::string ProductAttributes::text() const {
  return fmt::format("{}{}alpha={} beta={}", transpose_a ? "a^T " : "", transpose_b ? "b^T " : "", alpha, beta);
}

std::vector<Polynomial> polynomials(const spec::Optimizer& optimizer) {
  constexpr Polynomial kQuintic = {3.4445, -4.7750, 2.0315};
  constexpr Polynomial kPolarExpress[] = {{8.156554524902461, -22.48329292557795, 15.878769915207462},
                                          {4.042929935166739, -2.808917465908714, 0.5000178451051316},
                                          {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
                                          {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
                                          {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}};
  std::vector<Polynomial> all(static_cast<std::size_t>(optimizer.muon_iterations), kQuintic);
  if (optimizer.muon_coefficients == spec::MuonCoefficients::polar_express)
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = kPolarExpress[std::min(i, std::size(kPolarExpress) - 1)];
  return all;
}

constexpr OpRow kRowNorms = StepRow{.signature = norms_signature, .work = norms_work};
constexpr OpRow kMuonFactors = StepRow{.signature = factors_signature, .work = factors_work};
constexpr OpRow kNeuronFactors =
    StepRow{.signature = neurons_signature, .changes = input(kNeuronMoments), .work = neurons_work};
constexpr OpRow kScaleRows = StepRow{.signature = scale_signature, .work = scale_work};
constexpr OpRow kProduct = StepRow{.signature = product_signature, .work = product_work};

}  // namespace llmc::ops
