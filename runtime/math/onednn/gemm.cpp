#include "math/gemm.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "device/cpu/address_space.h"
#include "device/cpu/arch.h"
#include "device/cpu/stream.h"
#include "error.h"
#include "math/gemm_text.h"
#include "math/onednn/support.h"
#include "math/onednn/widened.h"
#include "math/tiles/fits.h"

namespace llmc {
namespace {

using dnnl::memory;

memory::data_type type(DType dtype) {
  switch (dtype) {
    case DType::f32: return memory::data_type::f32;
    case DType::bf16: return memory::data_type::bf16;
    case DType::f16:
    case DType::e4m3:
    case DType::e5m2:
    case DType::dynamic8:
    case DType::udynamic8:
    case DType::rest:
    case DType::tie:
    case DType::i32:
    case DType::byte: break;
  }
  throw Failure(Exit::internal, std::string("no matrix product has elements of type ") + name_of(dtype));
}

/// [rows, cols] of op(`of`).
memory::desc matrix(std::int64_t rows, std::int64_t cols, const GemmMatrix& of) {
  return {{rows, cols}, type(of.dtype), of.transposed ? memory::dims{1, of.pitch} : memory::dims{of.pitch, 1}};
}

/// Bytes that a thread needs for this GEMM in tiles.
std::size_t tiles_workspace(const GemmShape& shape) {
  return shape.transpose_a ? weight_gradient_bytes(shape) : linear_product_bytes(shape);
}

// oneDNN's memory in addition to its operands grows with a GEMM. Splitting a long sum takes 2.3 GiB for a weight
// gradient of [50304, 768] on 16 threads. Padded rows, for which 2.6 has no brgemm, take 170 MB for 2,048 rows of
// 50,257 logits in fp32. So a GEMM that needs more scratchpad than this, or has padded rows, is computed in blocks of
// its result (docs/explanation/compiler.md).
constexpr std::size_t kMostScratchpad = std::size_t{16} << 20;
constexpr std::int64_t kBlockRows = 512, kBlockCols = 1024, kFewestRows = 16;

// 3.7 reads and writes a single row or column without its pitch (a test shows it).
constexpr bool kIgnoresPitches = DNNL_VERSION_MAJOR > 2;

/// Whether the operands of a product of one row or column have a pitch that oneDNN ignores.
bool loses_pitch(const GemmShape& s) {
  const bool row = s.m == 1 && s.transpose_a && s.pitch_a != 1;
  const bool column = s.n == 1 && (s.pitch_d != 1 || (!s.transpose_b && s.pitch_b != 1));
  return kIgnoresPitches && (row || column);
}

/// Rows or columns of a block: at most `most` of `all`, and without a single one left for the last block.
std::int64_t block_of(std::int64_t all, std::int64_t most) {
  std::int64_t size = std::min(all, most);
  while (kIgnoresPitches && size > 2 && all % size == 1) --size;
  return size;
}

bool has_padding(const GemmShape& shape) {
  return shape.a().pitch != shape.a().cols || shape.b().pitch != shape.b().cols || shape.d().pitch != shape.d().cols;
}

/// A primitive for a block of D, and its argument list. The list is built once; a call only sets addresses.
struct Product {
  std::int64_t rows = 0, cols = 0;
  dnnl::matmul primitive;
  memory a, b, bias, c, d, scratchpad;
  memory factor;  // alpha, where oneDNN reads it in each call
  std::vector<dnnl_exec_arg_t> arguments;

  std::size_t scratchpad_bytes() const { return scratchpad.get_desc().get_size(); }
};

/// Multiplies the sums of `product`, and in version 2 its bias, by `alpha` before anything else is added.
void scale(float alpha, dnnl::primitive_attr& attributes, Product& product, const dnnl::engine& engine) {
#if DNNL_VERSION_MAJOR == 2
  static_cast<void>(product), static_cast<void>(engine);
  attributes.set_output_scales(0, {alpha});
#else
  attributes.set_scales_mask(DNNL_ARG_WEIGHTS, 0);
  product.factor = memory({{1}, memory::data_type::f32, memory::dims{1}}, engine);
  *static_cast<float*>(product.factor.get_data_handle()) = alpha;
  product.arguments.push_back({DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, product.factor.get()});
#endif
}

/// Multiplies the sum of all that was added before by `beta`.
void scale_sum(float beta, dnnl::post_ops& post_ops) {
#if DNNL_VERSION_MAJOR == 2
  post_ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_linear, beta, 0.0f);
#else
  post_ops.append_eltwise(dnnl::algorithm::eltwise_linear, beta, 0.0f);
#endif
}

/// The kernel for D = AB, plus `bias` unless that is null.
dnnl::matmul::primitive_desc kernel(const Product& p, const memory* bias, dnnl::primitive_attr& attributes,
                                    const dnnl::engine& engine) {
  const memory::desc a = p.a.get_desc(), b = p.b.get_desc(), d = p.d.get_desc();
#if DNNL_VERSION_MAJOR == 2
  const auto operation = bias ? dnnl::matmul::desc(a, b, bias->get_desc(), d) : dnnl::matmul::desc(a, b, d);
  return {operation, attributes, engine};
#else
  attributes.set_deterministic(true);  // the same bits in every call
  return bias ? dnnl::matmul::primitive_desc(engine, a, b, bias->get_desc(), d, attributes)
              : dnnl::matmul::primitive_desc(engine, a, b, d, attributes);
#endif
}

/// Equally sized blocks of D, except at its last row and column.
struct Blocks {
  std::int64_t rows = 0, cols = 0;
  std::vector<Product> products;  // one for each size of a block

  Product& of(std::int64_t rows_left, std::int64_t cols_left) {
    const std::int64_t r = std::min(rows, rows_left), c = std::min(cols, cols_left);
    return *std::ranges::find_if(products, [&](const Product& p) { return p.rows == r && p.cols == c; });
  }
};

}  // namespace

struct MathLibrary::Impl {
  explicit Impl(int device_threads) : threads(device_threads) {
    // oneDNN generates code into memory without checking the allocation: a model of one layer took 16 MiB.
    require_address_space(std::size_t{64} << 20, "the code that oneDNN writes");
  }

  int threads;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<std::byte> scratchpad;  // sized for the largest request: calls come one at a time

  std::byte* aligned_scratchpad() {
    const auto address = reinterpret_cast<std::uintptr_t>(scratchpad.data());
    return scratchpad.data() + (kAlignment - address % kAlignment) % kAlignment;
  }
  void reserve(std::size_t bytes) {
    if (scratchpad.size() >= bytes + kAlignment) return;
    scratchpad = {};  // freed first: the old and the new one together could be the process's peak
    scratchpad = std::vector<std::byte>(bytes + kAlignment);
  }
  static constexpr std::size_t kAlignment = 4096;
};

MathLibrary::MathLibrary(Device& device, void*, std::size_t, int) : impl_(new Impl(device.threads())) {}
MathLibrary::~MathLibrary() = default;

struct Gemm::Impl {
  MathLibrary::Impl* library;
  GemmShape shape;
  Blocks store;          // D = ...
  Blocks accumulate;     // D += ...; empty unless the shape accumulates
  bool widened = false;  // by widened_product(), without blocks and pitches

  Product make(std::int64_t rows, std::int64_t cols, bool accumulates) const;
  Blocks in_blocks(bool accumulates) const;
  void in_tiles(const GemmOperands& operands) const;
};

Product Gemm::Impl::make(std::int64_t rows, std::int64_t cols, bool accumulates) const {
  const auto place = [this](const memory::desc& desc) { return memory(desc, library->engine, nullptr); };
  Product product;
  product.rows = rows, product.cols = cols;
  memory& a = product.a = place(matrix(rows, shape.k, shape.a()));
  memory& b = product.b = place(matrix(shape.k, cols, shape.b()));
  memory& bias = product.bias = place({{1, cols}, type(shape.d().dtype), memory::dims{cols, 1}});
  memory& c = product.c = place(matrix(rows, cols, shape.c()));
  memory& d = product.d = place(matrix(rows, cols, shape.d()));
  dnnl::post_ops post_ops;
  // Sums, bias and both additions are fp32 inside the primitive: D is rounded once. C has no factor of its own, so
  // beta (alpha / beta AB + C) stands for alpha AB + beta C.
  const bool adds_c = shape.residual && shape.beta != 0, beta_last = adds_c && shape.beta != 1;
  const float alpha = beta_last ? shape.alpha / shape.beta : shape.alpha;
  if (accumulates) post_ops.append_sum(beta_last ? 1.0f : shape.beta);
  if (adds_c) post_ops.append_binary(dnnl::algorithm::binary_add, c.get_desc());
  if (beta_last) scale_sum(shape.beta, post_ops);
  dnnl::primitive_attr attributes;
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);  // whatever ONEDNN_DEFAULT_FPMATH_MODE is
  if (alpha != 1) scale(alpha, attributes, product, library->engine);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post_ops);

  const auto description = kernel(product, shape.bias ? &bias : nullptr, attributes, library->engine);
  product.primitive = dnnl::matmul(description);
  product.scratchpad = place(description.scratchpad_desc());
  product.arguments.insert(product.arguments.end(), {{DNNL_ARG_SRC, a.get()},
                                                     {DNNL_ARG_WEIGHTS, b.get()},
                                                     {DNNL_ARG_DST, d.get()},
                                                     {DNNL_ARG_SCRATCHPAD, product.scratchpad.get()}});
  if (shape.bias) product.arguments.push_back({DNNL_ARG_BIAS, bias.get()});
  if (adds_c)
    product.arguments.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(accumulates ? 1 : 0) | DNNL_ARG_SRC_1, c.get()});
  return product;
}

Blocks Gemm::Impl::in_blocks(bool accumulates) const {
  const bool padded = has_padding(shape);
  Blocks blocks{.rows = padded ? block_of(shape.m, kBlockRows) : shape.m,
                .cols = padded ? block_of(shape.n, kBlockCols) : shape.n,
                .products = {}};
  for (;;) {
    blocks.products = {make(blocks.rows, blocks.cols, accumulates)};
    if (blocks.products[0].scratchpad_bytes() <= kMostScratchpad || blocks.rows <= kFewestRows) break;
    blocks.rows = block_of(shape.m, blocks.rows / 2);
  }
  const std::int64_t last_rows = shape.m % blocks.rows, last_cols = shape.n % blocks.cols;
  if (last_rows) blocks.products.push_back(make(last_rows, blocks.cols, accumulates));
  if (last_cols) blocks.products.push_back(make(blocks.rows, last_cols, accumulates));
  if (last_rows && last_cols) blocks.products.push_back(make(last_rows, last_cols, accumulates));
  for (const Product& product : blocks.products) library->reserve(product.scratchpad_bytes());
  return blocks;
}

void Gemm::Impl::in_tiles(const GemmOperands& o) const {
  const int threads = library->threads;
  std::byte* workspaces = library->aligned_scratchpad();
#pragma omp parallel num_threads(threads)
  {
    const int part = omp_get_thread_num();
    void* workspace = workspaces + static_cast<std::size_t>(part) * tiles_workspace(shape);
    if (shape.transpose_a)
      weight_gradient(shape, o.a, o.b, o.d, o.accumulate, part, threads, workspace);
    else
      linear_product(shape, o.a, o.b, o.bias, o.c, o.d, part, threads, workspace);
  }
}

Gemm::Gemm(MathLibrary& library, const GemmShape& shape) : impl_(new Impl()) {
  impl_->library = &library.impl();
  impl_->shape = shape;
  if (shape.scaling != Scaling::none)
    throw Failure(Exit::internal, "a product on the CPU must not be scaled: " + text(shape));
  if (shape.tiles) {
    if (!fits_tiles(shape)) throw Failure(Exit::internal, "no product in tiles has the form of " + text(shape));
    require_tiles();
    impl_->library->reserve(static_cast<std::size_t>(impl_->library->threads) * tiles_workspace(shape));
    return;
  }
  if (shape.bias && (shape.alpha != 1 || shape.beta != 1))
    throw Failure(Exit::toolchain, "a product on the CPU with alpha or beta cannot add a bias: " + text(shape));
  if ((shape.operand == DType::bf16 && bf16_support() == Bf16Support::widened) || loses_pitch(shape)) {
    impl_->widened = true;
    impl_->library->reserve(widened_workspace());
    return;
  }
  try {
    impl_->store = impl_->in_blocks(false);
    if (shape.accumulates) impl_->accumulate = impl_->in_blocks(true);
  } catch (const dnnl::error& error) {
    throw Failure(Exit::toolchain,
                  math_library_version() + " cannot multiply " + text(shape) + " on this processor: " + error.message);
  }
}

Gemm::Gemm(Gemm&&) noexcept = default;
Gemm::~Gemm() = default;

void Gemm::operator()(Stream& stream, const GemmOperands& o) const {
  Impl& impl = *impl_;
  const GemmShape& shape = impl.shape;
  const Launched launched(stream.listener, stream, LaunchKind::product, shape.name);
  if (shape.tiles) return impl.in_tiles(o);
  if (o.accumulate && !shape.accumulates)
    throw Failure(Exit::internal, "a product must add to its result, but its shape does not accumulate");
  if (impl.widened) {
    if (!widened_product(shape, o, impl.library->threads, impl.library->aligned_scratchpad()))
      throw Failure(Exit::internal, math_library_version() + " failed in " + text(shape));
    return;
  }
  Blocks& blocks = o.accumulate ? impl.accumulate : impl.store;
  const auto at = [](const void* begin, DType dtype, std::int64_t element) {
    return begin ? const_cast<std::byte*>(static_cast<const std::byte*>(begin)) + bytes_of(dtype, element) : nullptr;
  };
  for (std::int64_t col = 0; col < shape.n; col += blocks.cols)
    for (std::int64_t row = 0; row < shape.m; row += blocks.rows) {
      Product& product = blocks.of(shape.m - row, shape.n - col);
      product.a.set_data_handle(at(o.a, shape.a().dtype, shape.transpose_a ? row : row * shape.pitch_a));
      product.b.set_data_handle(at(o.b, shape.b().dtype, shape.transpose_b ? col * shape.pitch_b : col));
      product.bias.set_data_handle(at(o.bias, shape.d().dtype, col));
      product.c.set_data_handle(at(o.c, shape.c().dtype, row * shape.pitch_d + col));
      product.d.set_data_handle(at(o.d, shape.d().dtype, row * shape.pitch_d + col));
      // All GEMMs share the buffer, which may have moved when a later one was created.
      product.scratchpad.set_data_handle(impl.library->aligned_scratchpad());
      const dnnl_status_t status =
          dnnl_primitive_execute(product.primitive.get(), impl.library->stream.get(),
                                 static_cast<int>(product.arguments.size()), product.arguments.data());
      if (status != dnnl_success)
        throw Failure(Exit::internal, math_library_version() +
                                          " failed in a matrix product that it supports, with status " +
                                          std::to_string(status));
    }
}

}  // namespace llmc
