#include "compiler/ops/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "compiler/ops/quantising/quantise.h"
#include "compiler/ops/rows.h"
#include "error.h"
#include "math/gemm_text.h"

namespace llmc::ops {

const OpRow& row_of(OpKind kind) {
#define LLMC_ROW(kind, row) &k##row,
  static constexpr const OpRow* kRows[] = {LLMC_OPS(LLMC_ROW)};
#undef LLMC_ROW
  return *kRows[static_cast<std::size_t>(kind)];
}

void Operands::count(std::size_t inputs, std::size_t outputs) const {
  expect(own_inputs(op) == inputs && own_outputs(op) == outputs, "takes {} inputs and {} outputs", inputs, outputs);
  for (const Quantised& q : op.quantised) {
    const QuantisedOperands of = *quantised(op, q.output);
    const Tensor &result = out(static_cast<std::size_t>(q.output)), &codes = graph.at(of.codes);
    same_shape(result, codes);
    expect(graph.at(of.scales).cols == codes.rows, "one scale a row");
    if (q.transposed)
      expect(graph.at(of.row_scales).cols == codes.cols && graph.at(of.shared).cols == 1,
             "one scale a row, one for all");
    if (of.factors != kNone) expect(graph.at(of.factors).cols == codes.cols, "one factor a column");
    const CanQuantise can = row_of(op.kind).can_quantise;
    expect(can && can(*this, q), "its kernel does not quantise output {} that way", q.output);
  }
}

void Operands::same_shape(const Tensor& a, const Tensor& b) const {
  expect(a.rows == b.rows && a.cols == b.cols, "%{} is [{}, {}] but %{} is [{}, {}]", a.name, a.rows, a.cols, b.name,
         b.rows, b.cols);
}

DType reads_fp32(const Operands&, std::size_t) { return DType::f32; }

void no_gradient(Backward&, const Op& op) {
  throw Failure(Exit::internal, std::string("no gradient rule for ") + name_of(op.kind));
}

TensorId in_a_new_place(const Op&) { return kNone; }

int no_sum(const Op&) { return kNoSum; }

InputSet no_column_makers(const Op&) { return kNoInputs; }

double no_products(const Operands&) { return 0; }

TensorId over_first_input(const Op& op) { return op.inputs[0]; }

BucketRange FlatSizes::buckets_of(GroupSet groups) const {
  if (groups == kAllGroups) return {0, buckets.size()};
  BucketRange range{buckets.size(), 0};
  for (std::size_t group = 0; group < group_buckets.size(); ++group)
    if (holds(groups, static_cast<int>(group)) && !group_buckets[group].empty())
      range = {std::min(range.first, group_buckets[group].first), std::max(range.past, group_buckets[group].past)};
  return range.empty() ? BucketRange{} : range;
}

std::int64_t FlatSizes::elements_of(GroupSet groups) const {
  if (groups == kAllGroups) return in_buckets;
  std::int64_t count = 0;
  for (std::size_t group = 0; group < group_elements.size(); ++group)
    if (holds(groups, static_cast<int>(group))) count += group_elements[group];
  return count;
}

void no_scratch(Graph&, const Op&, const spec::Spec&, const FlatSizes&, const AttentionChoices&) {}

std::string Heads::text() const { return fmt::format("heads {}/{} of {}", query, key, dim); }

std::string flags_text(std::initializer_list<std::pair<const char*, bool>> flags) {
  std::string text;
  for (const auto& [name, set] : flags)
    if (set) text += (text.empty() ? "" : " ") + std::string(name);
  return text;
}

std::int64_t off_the_stream(const Operands&) { return 0; }

std::vector<Work> fused_away(const Context& c) {
  throw Failure(Exit::internal, std::string("a ") + name_of(c.op.kind) + " was left unfused: op " + c.op.label());
}

bool Kernel::is_same_as(const Kernel& other) const {
  return template_name == other.template_name &&
         std::ranges::equal(params, other.params, [](const KernelParam& a, const KernelParam& b) {
           return a.name == b.name && a.value == b.value;
         });
}

std::string Kernel::key() const {
  std::string text = template_name;
  for (const KernelParam& p : params) text += fmt::format(" {}={}", p.name, p.value);
  return text;
}

/// Compares what key() prints, which a search over plans would spend a tenth of its time on.
bool Product::is_same_as(const Product& other) const {
  const auto facts = [](const GemmShape& s) {
    return std::tie(s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.pitch_a, s.pitch_b, s.pitch_d, s.operand, s.e5m2_a,
                    s.result, s.scaling, s.alpha, s.beta, s.bias, s.residual, s.accumulates, s.tiles, s.tf32,
                    s.fast_accumulation);
  };
  return name == other.name && facts(shape) == facts(other.shape);
}

std::string Product::key() const {
  const GemmShape& s = shape;
  return fmt::format("{}: {}{}{}", name, operation_text(s), factors_text(s), s.tiles ? ", in tiles" : "");
}

}  // namespace llmc::ops
