// Small templates for the specialiser's tests, and inputs that specialise them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/emit/specialiser/specialiser.h"

namespace llmc::emit {

inline const std::filesystem::path kRuntime = std::filesystem::path(LLMC_SOURCE_DIR) / "runtime";

/// The only param of most templates.
inline const std::vector<Param> kColumns = {{"int", "kCols", "2048"}};

/// A template named `sample` with this function body; `before` precedes the function.
inline SpecialiseInput sample(std::vector<Param> params, const std::string& body, const std::string& before = "") {
  SpecialiseInput input;
  input.template_name = "sample";
  input.template_file = "templates/sample.cu";
  input.template_text = "#include \"params.h\"\n\nnamespace llmc {\n\n" + before +
                        "void sample(float* out, const float* in, int n) {\n" + body + "}\n\n}  // namespace llmc\n";
  input.params = std::move(params);
  input.entry = "sample";
  input.include_directory = kRuntime;
  return input;
}

/// Expected output of specialise() for such a template.
inline std::string expected(const std::string& body, const std::string& before = "") {
  return "namespace llmc {\n\n" + before + "void sample(float* out, const float* in, int n) {\n" + body +
         "}\n\n}  // namespace llmc\n";
}

/// Input whose template is `text`, the output of a first specialisation.
inline SpecialiseInput again(SpecialiseInput input, const std::string& text) {
  input.template_text = text;
  input.template_name = input.entry;
  input.params.clear();
  input.header.clear();
  return input;
}

/// A whole kernel for both targets: every rule, a lambda, a helper template, a pragma, comments.
inline SpecialiseInput whole_kernel(spec::TargetKind target, bool residual, bool recompute, int columns) {
  SpecialiseInput input;
  input.template_name = "scale_rows";
  input.template_file = "templates/scale_rows.cu";
  input.target = target;
  input.entry = "scale_rows_final";
  input.include_directory = kRuntime;
  input.params = {{"using", "Act", "float"},
                  {"int", "kRows", "96"},
                  {"int", "kCols", std::to_string(columns)},
                  {"int", "kLanes", "32"},
                  {"float", "kEps", "1e-5f"},
                  {"bool", "kResidual", residual ? "true" : "false"},
                  {"bool", "kRecompute", recompute ? "true" : "false"}};
  const bool cuda = target == spec::TargetKind::cuda;
  const std::string device = cuda ? "__device__ " : "";
  input.template_text = R"(// scale_rows: scales each row by the reciprocal of its mean square.
#include "params.h"

namespace llmc {

constexpr int kPerLane = (kCols + kLanes - 1) / kLanes;  // columns of one lane
constexpr int kUnused = kRows * 2;

// Squares, kept apart so that it can be tested.
inline )" + device + R"(float square(float v) { return v * v; }

// Only the residual needs it.
template <int N>
inline )" + device + R"(float blend(float a, float b) {
  return a * (1.0f / N) + b;
}

)" + (cuda ? "__global__ __launch_bounds__(kLanes * 4) " : "") +
                        R"(void scale_rows(const Act* x, const Act* residual, Act* y) {
  for (int row = 0; row < kRows; ++row) {
    const Act* in = x + row * kCols;  // (kCols)
    float sum = 0;
    // A fixed order.
    for (int i = 0; i < kPerLane * kLanes && i < kCols; ++i) sum += square(static_cast<float>(in[i]));
    const float scale = 1.0f / (sum / kCols + kEps);
    if constexpr (kResidual) {
      // Residual first.
      const Act* base = residual + row * kCols;
      for (int i = 0; i < kCols; ++i) y[row * kCols + i] = blend<kCols / 4>(base[i], in[i] * scale);
    } else if constexpr (kRecompute) {
      const auto put = [&](int i, auto v) { y[row * kCols + i] = v; };
      for (int i = 0; i < kCols; ++i) put(i, in[i] * scale);
    } else {
      y[row * kCols] = scale;  // the first column only
    }
  }
}

}  // namespace llmc
)";
  return input;
}

}  // namespace llmc::emit
