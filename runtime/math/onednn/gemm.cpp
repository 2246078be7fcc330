#include "math/gemm.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <vector>

#include "device/cpu/arch.h"
#include "device/cpu/stream.h"
#include "error.h"
#include "math/onednn/support.h"
#include "math/tiles/linear.h"
#include "math/tiles/weight_gradient.h"

namespace llmc {
namespace {

using dnnl::memory;

memory::data_type type(DType dtype) {
  switch (dtype) {
    case DType::f32: return memory::data_type::f32;
    case DType::bf16: return memory::data_type::bf16;
    case DType::i32:
    case DType::byte: break;
  }
  throw Failure(Exit::internal, std::string("no matrix product has elements of type ") + name_of(dtype));
}

/// A row-major [rows, cols] matrix, or the transpose of one stored [cols, rows].
memory::desc matrix(std::int64_t rows, std::int64_t cols, bool transposed, std::int64_t pitch, DType dtype) {
  return {{rows, cols}, type(dtype), transposed ? memory::dims{1, pitch} : memory::dims{pitch, 1}};
}

std::string text(const GemmShape& shape) {
  char line[160];
  std::snprintf(line, sizeof(line), "%s [m %lld, n %lld, k %lld]%s%s in %s -> %s", shape.name,
                static_cast<long long>(shape.m), static_cast<long long>(shape.n), static_cast<long long>(shape.k),
                shape.transpose_a ? " with A transposed" : "", shape.transpose_b ? " with B transposed" : "",
                name_of(shape.operand), name_of(shape.result));
  return line;
}

/// Bytes that a thread needs for this product in tiles.
std::size_t tiles_workspace(const GemmShape& shape) {
  return shape.transpose_a ? weight_gradient_bytes(shape) : linear_product_bytes(shape);
}

// oneDNN 2.6 has no brgemm for rows with padding, and what it has in its place holds a bf16 result in fp32, once for
// each thread: logits of 2,048 rows and 50,257 words would take 400 MB a thread. From here on a product is done in
// blocks of rows.
constexpr std::size_t kMostScratchpad = std::size_t{16} << 20;
constexpr std::int64_t kRowsOfBlocks = 16;  // a multiple of which blocks have where they have as many

/// A primitive for so many rows of A, C and D, and its argument list. The list is made once; a call only puts addresses
/// into the memory objects.
struct Product {
  std::int64_t rows = 0;
  dnnl::matmul primitive;
  memory a, c, d, scratchpad;
  std::vector<dnnl_exec_arg_t> arguments;
};

}  // namespace

struct MathLibrary::Impl {
  explicit Impl(int device_threads) : threads(device_threads) {}

  int threads;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<std::byte> scratchpad;  // as large as the greediest primitive asks for: calls come one at a time

  std::byte* aligned_scratchpad() {
    const auto address = reinterpret_cast<std::uintptr_t>(scratchpad.data());
    return scratchpad.data() + (kAlignment - address % kAlignment) % kAlignment;
  }
  void reserve(std::size_t bytes) {
    if (scratchpad.size() >= bytes + kAlignment) return;
    scratchpad = {};  // first: the old and the new one together could be the most that the process ever has
    scratchpad = std::vector<std::byte>(bytes + kAlignment);
  }
  static constexpr std::size_t kAlignment = 4096;
};

MathLibrary::MathLibrary(Device& device, void*, std::size_t, int) : impl_(new Impl(device.threads())) {}
MathLibrary::~MathLibrary() = default;

struct Gemm::Impl {
  const char* name;
  MathLibrary::Impl* library;
  std::int64_t rows = 0;                          // of A and D
  std::int64_t row_bytes_a = 0, row_bytes_d = 0;  // from one row to the next
  memory b, bias;                                 // of all products
  std::vector<Product> store;                     // D = ...: of a block of rows, and of what is left below the last
  std::vector<Product> accumulate;                // D += ...; empty unless the shape accumulates
  std::optional<GemmShape> in_tiles;              // computed in tiles, and nothing of the above is there

  Product make(const GemmShape& shape, std::int64_t rows, bool accumulates) const;
  std::vector<Product> in_blocks(const GemmShape& shape, bool accumulates) const;
};

Product Gemm::Impl::make(const GemmShape& shape, std::int64_t rows, bool accumulates) const {
  const auto place = [this](const memory::desc& desc) { return memory(desc, library->engine, nullptr); };
  Product product;
  product.rows = rows;
  memory& a = product.a = place(matrix(rows, shape.k, shape.transpose_a, shape.pitch_a, shape.operand));
  memory& c = product.c = place(matrix(rows, shape.n, false, shape.pitch_d, shape.result));
  memory& d = product.d = place(matrix(rows, shape.n, false, shape.pitch_d, shape.result));
  dnnl::post_ops post_ops;
  // Sums, the bias and both additions are fp32 inside the primitive: D is rounded once.
  if (accumulates) post_ops.append_sum(1.0f);
  if (shape.residual) post_ops.append_binary(dnnl::algorithm::binary_add, c.get_desc());
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post_ops);

  const auto operation = shape.bias ? dnnl::matmul::desc(a.get_desc(), b.get_desc(), bias.get_desc(), d.get_desc())
                                    : dnnl::matmul::desc(a.get_desc(), b.get_desc(), d.get_desc());
  const dnnl::matmul::primitive_desc description(operation, attributes, library->engine);

  product.primitive = dnnl::matmul(description);
  product.scratchpad = place(description.scratchpad_desc());
  product.arguments = {{DNNL_ARG_SRC, a.get()},
                       {DNNL_ARG_WEIGHTS, b.get()},
                       {DNNL_ARG_DST, d.get()},
                       {DNNL_ARG_SCRATCHPAD, product.scratchpad.get()}};
  if (shape.bias) product.arguments.push_back({DNNL_ARG_BIAS, bias.get()});
  if (shape.residual)
    product.arguments.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(accumulates ? 1 : 0) | DNNL_ARG_SRC_1, c.get()});
  return product;
}

std::vector<Product> Gemm::Impl::in_blocks(const GemmShape& shape, bool accumulates) const {
  const auto bytes = [](const Product& product) { return product.scratchpad.get_desc().get_size(); };
  std::vector<Product> products = {make(shape, shape.m, accumulates)};
  // A scratchpad of an fp32 result has parts of a long sum, which fewer rows would not make smaller.
  if (shape.result == DType::bf16 && bytes(products[0]) > kMostScratchpad) {
    std::int64_t block =
        shape.m * static_cast<std::int64_t>(kMostScratchpad) / static_cast<std::int64_t>(bytes(products[0]));
    block = block > kRowsOfBlocks ? block / kRowsOfBlocks * kRowsOfBlocks : std::max<std::int64_t>(block, 1);
    products = {make(shape, block, accumulates)};
    if (shape.m % block) products.push_back(make(shape, shape.m % block, accumulates));
  }
  for (const Product& product : products) library->reserve(bytes(product));
  return products;
}

Gemm::Gemm(MathLibrary& library, const GemmShape& shape) : impl_(new Impl()) {
  if (shape.operand == DType::bf16 && bf16_support() == Bf16Support::none)
    throw Failure(Exit::toolchain,
                  math_library_version() + " has no bf16 products for this processor; set precision.compute to fp32");
  impl_->name = shape.name;
  impl_->library = &library.impl();
  if (shape.tiles) {
    if (!is_weight_gradient(shape) && !is_linear_product(shape))
      throw Failure(Exit::internal, "no product in tiles has the form of " + text(shape));
    require_tiles();
    impl_->in_tiles = shape;
    impl_->library->reserve(static_cast<std::size_t>(impl_->library->threads) * tiles_workspace(shape));
    return;
  }
  const dnnl::engine& engine = impl_->library->engine;
  const auto place = [&engine](const memory::desc& desc) { return memory(desc, engine, nullptr); };
  impl_->rows = shape.m;
  impl_->row_bytes_a = (shape.transpose_a ? 1 : shape.pitch_a) * bytes_of(shape.operand, 1);
  impl_->row_bytes_d = shape.pitch_d * bytes_of(shape.result, 1);
  impl_->b = place(matrix(shape.k, shape.n, shape.transpose_b, shape.pitch_b, shape.operand));
  impl_->bias = place({{1, shape.n}, type(shape.result), memory::dims{shape.n, 1}});
  try {
    impl_->store = impl_->in_blocks(shape, false);
    if (shape.accumulates) impl_->accumulate = impl_->in_blocks(shape, true);
  } catch (const dnnl::error& error) {
    throw Failure(Exit::toolchain,
                  math_library_version() + " cannot multiply " + text(shape) + " on this processor: " + error.message);
  }
}

Gemm::Gemm(Gemm&&) noexcept = default;
Gemm::~Gemm() = default;

void Gemm::operator()(Stream& stream, const GemmOperands& o) const {
  Impl& impl = *impl_;
  const Launched launched(stream.listener, stream, LaunchKind::product, impl.name);
  if (impl.in_tiles) {
    const GemmShape& shape = *impl.in_tiles;
    const int threads = impl.library->threads;
    std::byte* workspaces = impl.library->aligned_scratchpad();
#pragma omp parallel num_threads(threads)
    {
      const int part = omp_get_thread_num();
      void* workspace = workspaces + static_cast<std::size_t>(part) * tiles_workspace(shape);
      if (shape.transpose_a)
        weight_gradient(shape, o.a, o.b, o.d, o.accumulate, part, threads, workspace);
      else
        linear_product(shape, o.a, o.b, o.bias, o.c, o.d, part, threads, workspace);
    }
    return;
  }
  std::vector<Product>& products = o.accumulate ? impl.accumulate : impl.store;
  if (products.empty())
    throw Failure(Exit::internal, "a product was asked to add to its result, but its shape does not accumulate");
  impl.b.set_data_handle(const_cast<void*>(o.b));
  impl.bias.set_data_handle(const_cast<void*>(o.bias));
  const auto below = [](const void* at, std::int64_t bytes) {
    return at ? const_cast<std::byte*>(static_cast<const std::byte*>(at)) + bytes : nullptr;
  };
  for (std::int64_t row = 0; row < impl.rows;) {
    Product& product = impl.rows - row >= products.front().rows ? products.front() : products.back();
    product.a.set_data_handle(below(o.a, row * impl.row_bytes_a));
    product.c.set_data_handle(below(o.c, row * impl.row_bytes_d));
    product.d.set_data_handle(below(o.d, row * impl.row_bytes_d));
    // The buffer is shared by all products and may have moved when a later one was made.
    product.scratchpad.set_data_handle(impl.library->aligned_scratchpad());
    const dnnl_status_t status =
        dnnl_primitive_execute(product.primitive.get(), impl.library->stream.get(),
                               static_cast<int>(product.arguments.size()), product.arguments.data());
    if (status != dnnl_success)
      throw Failure(Exit::internal,
                    math_library_version() + " failed in a product it had accepted, status " + std::to_string(status));
    row += product.rows;
  }
}

}  // namespace llmc
