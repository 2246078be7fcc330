#include "product.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "device/math.h"
#include "shadow.h"

namespace sim {
namespace {

using Layout = cublasLtMatrixLayoutOpaque;

struct Strides {
  std::size_t row, col;
};

Strides strides(const Layout& layout) {
  const auto ld = static_cast<std::size_t>(layout.ld);
  return layout.order == CUBLASLT_ORDER_COL ? Strides{1, ld} : Strides{ld, 1};
}

/// Number of a code with so many bits of exponent and mantissa, as IEEE 754 has it.
float number(unsigned code, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(code) & ((1 << mantissa_bits) - 1), one = 1 << mantissa_bits;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits)
                              : std::ldexp(static_cast<float>(one + mantissa), exponent - bias - mantissa_bits);
  return code & 0x80 ? -magnitude : magnitude;
}

std::array<float, 256> numbers(float (*of)(unsigned char)) {
  std::array<float, 256> all;
  for (unsigned code = 0; code < 256; ++code) all[code] = of(static_cast<unsigned char>(code));
  return all;
}

float element(const void* data, cudaDataType_t type, std::size_t index) {
  static const std::array<float, 256> kE4m3 = numbers(e4m3_number), kE5m2 = numbers(e5m2_number);
  switch (type) {
    case CUDA_R_16BF: return llmc::to_float(static_cast<const llmc::bf16*>(data)[index]);
    case CUDA_R_16F: return llmc::to_float(static_cast<const llmc::fp16*>(data)[index]);
    case CUDA_R_8F_E4M3: return kE4m3[static_cast<const unsigned char*>(data)[index]];
    case CUDA_R_8F_E5M2: return kE5m2[static_cast<const unsigned char*>(data)[index]];
    case CUDA_R_32F: break;
  }
  return static_cast<const float*>(data)[index];
}

/// op(matrix) as fp32, rows by cols, packed by rows.
std::vector<float> gather(const Layout& layout, const void* data, bool transpose) {
  const Strides step = strides(layout);
  const std::size_t rows = transpose ? layout.cols : layout.rows, cols = transpose ? layout.rows : layout.cols;
  const std::size_t by_row = transpose ? step.col : step.row, by_col = transpose ? step.row : step.col;
  std::vector<float> packed(rows * cols);
  const auto pack = [&](const auto& number) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) packed[r * cols + c] = number(r * by_row + c * by_col);
  };
  if (layout.type == CUDA_R_16BF)  // the most frequent one
    pack([from = static_cast<const llmc::bf16*>(data)](std::size_t i) { return llmc::to_float(from[i]); });
  else
    pack([&](std::size_t i) { return element(data, layout.type, i); });
  return packed;
}

void note(Access access, const Layout& layout, const void* data) {
  const bool columns = layout.order == CUBLASLT_ORDER_COL;
  const std::size_t bytes = element_bytes(layout.type);
  touch_rows(access, data, columns ? layout.cols : layout.rows, (columns ? layout.rows : layout.cols) * bytes,
             static_cast<std::size_t>(layout.ld) * bytes);
}

/// `count` ranges of `bytes`, `pitch` bytes apart.
struct Area {
  std::uintptr_t begin;
  std::size_t count, bytes, pitch;
};

Area area(const void* begin, std::size_t bytes) { return {reinterpret_cast<std::uintptr_t>(begin), 1, bytes, bytes}; }

Area area(const Layout& layout, const void* data) {
  const bool columns = layout.order == CUBLASLT_ORDER_COL;
  const std::size_t bytes = element_bytes(layout.type);
  return {reinterpret_cast<std::uintptr_t>(data), columns ? layout.cols : layout.rows,
          (columns ? layout.rows : layout.cols) * bytes, static_cast<std::size_t>(layout.ld) * bytes};
}

bool meet(const Area& a, const Area& b) {
  for (std::size_t i = 0; i < a.count; ++i) {
    const std::uintptr_t begin = a.begin + i * a.pitch, end = begin + a.bytes;
    // The first range of b that ends after `begin`.
    const std::size_t after = begin < b.begin + b.bytes ? 0 : (begin - b.begin - b.bytes) / b.pitch + 1;
    if (after < b.count && b.begin + after * b.pitch < end) return true;
  }
  return false;
}

std::size_t scale_bytes(const Scales& scales, std::size_t count) {
  return scales.values ? (scales.mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F ? count : 1) * sizeof(float) : 0;
}

/// Products of 8 bits that a tensor core sums in its own width, and the bits of fp32 that this width lacks.
constexpr std::size_t kNarrowSum = 32;
constexpr std::uint32_t kMissingBits = (1u << 10) - 1;
constexpr std::uint32_t kUnreadBits = (1u << 13) - 1;  // of an operand in tf32

/// Whether a product of fp32 reads tf32. NVIDIA_TF32_OVERRIDE is 1 for all and 0 for none; emulated fp32 is as inexact
/// here.
bool reads_tf32(const cublasLtMatmulDescOpaque& operation) {
  static const char* const override = std::getenv("NVIDIA_TF32_OVERRIDE");
  static const bool emulated = std::getenv("CUBLAS_EMULATE_SINGLE_PRECISION");
  if (override && *override == '0') return false;
  return operation.tf32 || emulated || (override && *override == '1');
}

void cut(std::vector<float>& values, std::uint32_t bits) {
  for (float& value : values) value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~bits);
}

/// Factors of the product's rows or columns.
class Factors {
 public:
  Factors(const Scales& scales, std::size_t count)
      : values_(static_cast<const float*>(scales.values)),
        step_(scales.mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F) {
    if (values_) touch(Access::read, values_, (step_ ? count : 1) * sizeof(float));
  }
  float operator[](std::size_t i) const { return values_ ? values_[step_ * i] : 1.0f; }

 private:
  const float* values_;
  std::size_t step_;  // 0: one for all
};

/// sums [n] += the row `a` [k] times B [k, n], for k in [begin, end), in this order.
void add_products(const float* a, const std::vector<float>& b, std::size_t n, std::size_t begin, std::size_t end,
                  float* sums) {
  for (std::size_t k = begin; k < end; ++k) {
    const float* row = b.data() + k * n;
    for (std::size_t j = 0; j < n; ++j) sums[j] += a[k] * row[j];
  }
}

/// Length of the parts into which the sum over k is divided.
std::size_t part_of(Summation summation, std::size_t k) {
  if (summation == Summation::ascending) return k;
  return summation == Summation::halves ? (k + 1) / 2 : 32;
}

}  // namespace

std::size_t element_bytes(cudaDataType_t type) { return has_8_bits(type) ? 1 : type == CUDA_R_32F ? 4 : 2; }

float e4m3_number(unsigned char code) {
  return (code & 0x7f) == 0x7f ? std::numeric_limits<float>::quiet_NaN() : number(code, 4, 3);
}

float e5m2_number(unsigned char code) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if ((code & 0x7f) > 0x7c) return std::numeric_limits<float>::quiet_NaN();
  return (code & 0x7f) < 0x7c ? number(code, 5, 2) : code & 0x80 ? -kInfinity : kInfinity;
}

std::size_t extent_bytes(const Layout& layout) {
  const bool columns = layout.order == CUBLASLT_ORDER_COL;
  const std::uint64_t vectors = columns ? layout.cols : layout.rows, length = columns ? layout.rows : layout.cols;
  return ((vectors - 1) * static_cast<std::uint64_t>(layout.ld) + length) * element_bytes(layout.type);
}

std::string overlap(const Product& p) {
  const auto& of = p.operation;
  const bool biased = of.epilogue == CUBLASLT_EPILOGUE_BIAS;
  const Layout &c = p.c, &d = p.d;
  const bool in_place = p.c_data == p.d_data && c.type == d.type && c.ld == d.ld && c.order == d.order;
  struct Named {
    const char* name;
    Area area;
  };
  std::vector<Named> read = {{"A", area(p.a, p.a_data)}, {"B", area(p.b, p.b_data)}};
  if (biased) read.push_back({"the bias", area(of.bias, d.rows * element_bytes(of.bias_type))});
  read.push_back({"a scale", area(of.scale_a.values, scale_bytes(of.scale_a, d.rows))});
  read.push_back({"a scale", area(of.scale_b.values, scale_bytes(of.scale_b, d.cols))});
  const Area result = area(d, p.d_data), workspace = area(p.workspace, p.workspace_bytes);
  for (const Named& operand : read) {
    if (!operand.area.bytes) continue;
    if (meet(result, operand.area)) return std::string("D meets ") + operand.name;
    if (p.workspace_bytes && meet(workspace, operand.area)) return std::string("the workspace meets ") + operand.name;
  }
  if (p.workspace_bytes && meet(workspace, result)) return "the workspace meets D";
  if (p.beta == 0) return {};
  if (!in_place && meet(result, area(c, p.c_data))) return "D meets C without being equal to it";
  if (p.workspace_bytes && meet(workspace, area(c, p.c_data))) return "the workspace meets C";
  return {};
}

void run(const Product& p) {
  note(Access::read, p.a, p.a_data);
  note(Access::read, p.b, p.b_data);
  if (p.beta != 0) note(Access::read, p.c, p.c_data);
  const bool biased = p.operation.epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (biased) touch(Access::read, p.operation.bias, p.d.rows * element_bytes(p.operation.bias_type));
  const Factors by_row(p.operation.scale_a, p.d.rows), by_col(p.operation.scale_b, p.d.cols);
  if (p.workspace_bytes) {
    touch(Access::write, p.workspace, p.workspace_bytes);
    std::memset(p.workspace, 0xff, p.workspace_bytes);
  }

  const std::size_t m = p.d.rows, n = p.d.cols;
  const std::size_t k = p.operation.transpose_a == CUBLAS_OP_T ? p.a.rows : p.a.cols;
  std::vector<float> a = gather(p.a, p.a_data, p.operation.transpose_a == CUBLAS_OP_T);
  std::vector<float> b = gather(p.b, p.b_data, p.operation.transpose_b == CUBLAS_OP_T);
  if (p.a.type == CUDA_R_32F && reads_tf32(p.operation)) cut(a, kUnreadBits), cut(b, kUnreadBits);
  const std::vector<float> c = p.beta != 0 ? gather(p.c, p.c_data, false) : std::vector<float>();
  note(Access::write, p.d, p.d_data);

  const Strides to = strides(p.d);
  const std::size_t part = std::max<std::size_t>(part_of(p.summation, k), 1);
  const bool fast = p.operation.fast_accumulation && has_8_bits(p.a.type);
  const std::size_t step = fast ? kNarrowSum : part;
  std::vector<float> sums(n), partial(n);
  for (std::size_t i = 0; i < m; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (std::size_t begin = 0; begin < k; begin += part) {
      std::fill(partial.begin(), partial.end(), 0.0f);
      const std::size_t end = std::min(k, begin + part);
      for (std::size_t at = begin; at < end; at += step) {
        add_products(a.data() + i * k, b, n, at, std::min(end, at + step), partial.data());
        if (fast) cut(partial, kMissingBits);
      }
      for (std::size_t j = 0; j < n; ++j) sums[j] += partial[j];
    }
    const float bias = biased ? element(p.operation.bias, p.operation.bias_type, i) : 0.0f;
    for (std::size_t j = 0; j < n; ++j) {
      float value = p.alpha * sums[j] * by_row[i] * by_col[j];
      if (p.beta != 0) value += p.beta * c[i * n + j];
      value += bias;
      const std::size_t index = i * to.row + j * to.col;
      if (p.d.type == CUDA_R_16BF)
        static_cast<llmc::bf16*>(p.d_data)[index] = llmc::from_float<llmc::bf16>(value);
      else if (p.d.type == CUDA_R_16F)
        static_cast<llmc::fp16*>(p.d_data)[index] = llmc::from_float<llmc::fp16>(value);
      else
        static_cast<float*>(p.d_data)[index] = value;
    }
  }
}

}  // namespace sim
