// Formats a matrix product as text, for messages, plans and the keys of tuned.json.
#pragma once

#include <string>

#include "math/gemm_shape.h"

namespace llmc {

/// ", alpha 0.5, beta 2": factors other than 1.
inline std::string factors_text(const GemmShape& shape) {
  const auto factor = [](const char* name, float value) {
    return value == 1 ? std::string() : std::string(", ") + name + " " + std::to_string(value);
  };
  return factor("alpha", shape.alpha) + factor("beta", shape.beta);
}

/// "rows", "tensors", "blocks"; empty without scales.
constexpr const char* name_of(Scaling scaling) {
  constexpr const char* kNames[] = {"", "rows", "tensors", "blocks"};
  return kNames[static_cast<std::size_t>(scaling)];
}

/// ", scaled by rows, fast accumulation": of products of codes; empty for others.
inline std::string scaling_text(const GemmShape& shape) {
  return (shape.scaling == Scaling::none ? std::string() : std::string(", scaled by ") + name_of(shape.scaling)) +
         (shape.fast_accumulation ? ", fast accumulation" : "");
}

/// "bf16"; "e5m2 x e4m3" of operands that differ; "tf32", which is an arithmetic of fp32 operands.
inline std::string operands_text(const GemmShape& shape) {
  if (shape.tf32) return "tf32";
  return (shape.e5m2_a ? name_of(shape.operand_a()) + std::string(" x ") : "") + name_of(shape.operand);
}

/// "qkv_forward [m 64, n 96, k 32] with B transposed in bf16 -> bf16"
inline std::string text(const GemmShape& s) {
  return s.name + std::string(" [m ") + std::to_string(s.m) + ", n " + std::to_string(s.n) + ", k " +
         std::to_string(s.k) + "]" + (s.transpose_a ? " with A transposed" : "") +
         (s.transpose_b ? " with B transposed" : "") + (s.bias ? ", bias" : "") + (s.residual ? ", residual" : "") +
         " in " + operands_text(s) + " -> " + name_of(s.result) + scaling_text(s) + factors_text(s);
}

/// Layouts and types of all operands, their scales, the accumulation and what is added, without the name, alpha and
/// beta.
inline std::string operation_text(const GemmShape& s) {
  const auto matrix = [](std::int64_t rows, std::int64_t cols, const GemmMatrix& of, const char* type) {
    return "[" + std::to_string(rows) + ", " + std::to_string(cols) + "] pitch " + std::to_string(of.pitch) +
           (of.transposed ? " transposed " : " ") + type;
  };
  const auto type = [&](const GemmMatrix& of) { return s.tf32 ? "tf32" : name_of(of.dtype); };
  return matrix(s.m, s.k, s.a(), type(s.a())) + " x " + matrix(s.k, s.n, s.b(), type(s.b())) + " -> " +
         matrix(s.m, s.n, s.d(), name_of(s.result)) + (s.bias ? " + bias" : "") + (s.residual ? " + residual" : "") +
         (s.accumulates ? ", accumulates" : "") + scaling_text(s);
}

/// Key of a tuned algorithm: everything that the library's choice depends on.
inline std::string tuned_key(const GemmShape& s) {
  return operation_text(s) + ", aligned " + std::to_string(s.align_a) + " " + std::to_string(s.align_b) + " " +
         std::to_string(s.align_c) + " " + std::to_string(s.align_d);
}

}  // namespace llmc
