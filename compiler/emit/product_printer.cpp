#include "compiler/emit/product_printer.h"

#include <fmt/format.h>

#include <cctype>

#include "math/gemm_text.h"

namespace llmc::emit {
namespace {

/// Returns the members of the constant that differ from a GemmShape's defaults.
std::string fields(const plan::Product& p) {
  const GemmShape& s = p.shape;
  std::string text = fmt::format(".name = \"{}\", .m = {}, .n = {}, .k = {}", p.name, s.m, s.n, s.k);
  const auto flag = [&](const char* field, bool set) {
    if (set) text += fmt::format(", .{} = true", field);
  };
  flag("transpose_a", s.transpose_a), flag("transpose_b", s.transpose_b);
  text += fmt::format(", .pitch_a = {}, .pitch_b = {}, .pitch_d = {}", s.pitch_a, s.pitch_b, s.pitch_d);
  if (s.operand != DType::f32) text += std::string(", .operand = ") + dtype_literal(s.operand);
  flag("e5m2_a", s.e5m2_a);
  if (s.result != DType::f32) text += std::string(", .result = ") + dtype_literal(s.result);
  if (s.scaling != Scaling::none) text += std::string(", .scaling = Scaling::") + name_of(s.scaling);
  const auto factor = [&](const char* field, float value) {
    if (value == 1) return;
    const std::string digits = fmt::format("{}", value);
    const bool whole = digits.find_first_of(".e") == std::string::npos;
    text += fmt::format(", .{} = {}{}f", field, digits, whole ? ".0" : "");
  };
  factor("alpha", s.alpha), factor("beta", s.beta);
  flag("bias", s.bias), flag("residual", s.residual), flag("accumulates", s.accumulates);
  flag("tiles", s.tiles), flag("tf32", s.tf32), flag("fast_accumulation", s.fast_accumulation);
  const auto aligned = [&](const char* operand, std::uint32_t bytes) {
    if (bytes != kArenaAlignment) text += fmt::format(", .align_{} = {}", operand, bytes);
  };
  aligned("a", s.align_a), aligned("b", s.align_b), aligned("c", s.align_c), aligned("d", s.align_d);
  return text;
}

}  // namespace

std::string product_text(const plan::Product& p) {
  const GemmShape& s = p.shape;
  const auto operand = [](const GemmMatrix& matrix) {
    return fmt::format("[{}, {}]{}", matrix.rows, matrix.cols, matrix.transposed ? "^T" : "");
  };
  std::string text = fmt::format("{} x {}{} -> [{}, {}] {}{}{}", operand(s.a()), operand(s.b()),
                                 has_codes(s.operand) || s.tf32 ? " " + operands_text(s) : "", s.m, s.n,
                                 name_of(s.result), scaling_text(s), factors_text(s));
  if (s.bias) text += " + bias";
  if (s.residual) text += " + residual";
  if (s.accumulates) text += ", accumulates";
  if (s.tiles) text += s.bf16x3() ? ", bf16x3 in tiles" : ", in tiles";
  return text;
}

void print_products(SourceWriter& out, const plan::Plan& plan) {
  out.line("// Row-major matrix products of the step; pitches are elements from row to row.");
  std::string all;
  for (const plan::Product& p : plan.products) {
    out.line("inline constexpr GemmShape $c$ = {$f$};", {{"c", constant_name(p.name)}, {"f", fields(p)}});
    all += (all.empty() ? "" : ", ") + constant_name(p.name);
  }
  out.line("inline constexpr GemmShape kProducts[] = {$all$};", {{"all", all}});
}

}  // namespace llmc::emit
