// Class Attention without cuDNN, by plain loops: the same packed rows, scores and sums in fp32, and bf16 as in flash
// kernels: probabilities and score gradients as operands of a product, and dk, dv of each head before summation over a
// group.
#include "math/attention.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "device/cuda/stream.h"
#include "device/math.h"
#include "device/range.h"
#include "error.h"
#include "guard.h"
#include "math/cublaslt/library.h"
#include "math/cudnn/backward_choice.h"
#include "math/libraries.h"
#include "shadow.h"
#include "stream.h"

namespace llmc {
namespace {

float rounded(float v) { return to_float(from_float<bf16>(v)); }

float dot(const bf16* a, const bf16* b, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += to_float(a[i]) * to_float(b[i]);
  return sum;
}

/// One head of one sequence: the offset and pitch of its rows.
struct Head {
  std::int64_t sequence, dim, qkv_pitch, out_pitch;
  float scale;
  Mask mask;
};

void forward_head(const Head& h, const bf16* q, const bf16* k, const bf16* v, bf16* out, float* lse) {
  std::vector<float> scores(static_cast<std::size_t>(h.sequence)), sums(static_cast<std::size_t>(h.dim));
  for (std::int64_t i = 0; i < h.sequence; ++i) {
    float highest = -INFINITY, total = 0;
    for (std::int64_t j = h.mask.lo(static_cast<int>(i)); j <= i; ++j) {
      scores[j] = h.scale * dot(q + i * h.qkv_pitch, k + j * h.qkv_pitch, h.dim);
      highest = std::max(highest, scores[j]);
    }
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (std::int64_t j = h.mask.lo(static_cast<int>(i)); j <= i; ++j) {
      const float power = std::exp(scores[j] - highest);
      total += power;
      for (std::int64_t d = 0; d < h.dim; ++d) sums[d] += rounded(power) * to_float(v[j * h.qkv_pitch + d]);
    }
    for (std::int64_t d = 0; d < h.dim; ++d) out[i * h.out_pitch + d] = from_float<bf16>(sums[d] / total);
    lse[i] = highest + std::log(total);
  }
}

/// dk and dv of one head, packed [sequence, dim], fp32 before rounding.
void backward_head(const Head& h, const bf16* q, const bf16* k, const bf16* v, const bf16* out, const bf16* dout,
                   const float* lse, bf16* dq, std::vector<float>& dk, std::vector<float>& dv) {
  std::fill(dk.begin(), dk.end(), 0.0f);
  std::fill(dv.begin(), dv.end(), 0.0f);
  std::vector<float> query(static_cast<std::size_t>(h.dim));
  for (std::int64_t i = 0; i < h.sequence; ++i) {
    const bf16* gradient = dout + i * h.out_pitch;
    const float delta = dot(gradient, out + i * h.out_pitch, h.dim);
    std::fill(query.begin(), query.end(), 0.0f);
    for (std::int64_t j = h.mask.lo(static_cast<int>(i)); j <= i; ++j) {
      const bf16* key = k + j * h.qkv_pitch;
      const float probability = std::exp(h.scale * dot(q + i * h.qkv_pitch, key, h.dim) - lse[i]);
      const float score = rounded(probability * (dot(gradient, v + j * h.qkv_pitch, h.dim) - delta));
      for (std::int64_t d = 0; d < h.dim; ++d) {
        dv[j * h.dim + d] += rounded(probability) * to_float(gradient[d]);
        dk[j * h.dim + d] += score * to_float(q[i * h.qkv_pitch + d]);
        query[d] += score * to_float(key[d]);
      }
    }
    for (std::int64_t d = 0; d < h.dim; ++d) dq[i * h.qkv_pitch + d] = from_float<bf16>(h.scale * query[d]);
  }
  for (float& value : dk) value *= h.scale;
}

/// LLMC_SIM_BACKWARD_MS: duration of the backward pass on the simulated device's clock.
double backward_ms() {
  const char* text = std::getenv("LLMC_SIM_BACKWARD_MS");
  return text ? std::atof(text) : sim::kKernelMs;
}

}  // namespace

/// LLMC_SIM_CUDNN: another release.
std::size_t cudnn_version() {
  const char* text = std::getenv("LLMC_SIM_CUDNN");
  return text ? static_cast<std::size_t>(std::atoi(text)) : 91900;
}

struct Attention::Impl {
  AttentionShape shape;
  OwnBackward own = nullptr;  // null: cuDNN's
  RotateBack rotate_back = nullptr;

  std::size_t rows() const { return static_cast<std::size_t>(shape.batch * shape.sequence); }
  std::size_t qkv_bytes() const {
    return static_cast<std::size_t>((shape.heads + 2 * shape.kv_heads) * shape.head_dim) * sizeof(bf16);
  }
  std::size_t out_bytes() const { return static_cast<std::size_t>(shape.heads * shape.head_dim) * sizeof(bf16); }
  std::size_t lse_bytes() const { return static_cast<std::size_t>(shape.heads) * rows() * sizeof(float); }
  Head head() const {
    return {shape.sequence, shape.head_dim, shape.qkv_pitch, shape.out_pitch, shape.scale(), shape.mask()};
  }
  void note_qkv(sim::Access access, const void* rows_of) const {
    sim::touch_rows(access, rows_of, rows(), qkv_bytes(), static_cast<std::size_t>(shape.qkv_pitch) * sizeof(bf16));
  }
  void note_out(sim::Access access, const void* rows_of) const {
    sim::touch_rows(access, rows_of, rows(), out_bytes(), static_cast<std::size_t>(shape.out_pitch) * sizeof(bf16));
  }
  void run_forward(const bf16* qkv, bf16* out, float* lse) const;
  void run_backward(const bf16* dout, const bf16* out, const bf16* qkv, const float* lse, bf16* dqkv,
                    void* workspace) const;
};

void Attention::Impl::run_forward(const bf16* qkv, bf16* out, float* lse) const {
  note_qkv(sim::Access::read, qkv);
  note_out(sim::Access::write, out);
  sim::touch(sim::Access::write, lse, lse_bytes());
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const bf16* row = qkv + b * shape.sequence * shape.qkv_pitch;
    for (std::int64_t h = 0; h < shape.heads; ++h)
      forward_head(head(), row + h * shape.head_dim, row + (shape.heads + h / group) * shape.head_dim,
                   row + (shape.heads + shape.kv_heads + h / group) * shape.head_dim,
                   out + b * shape.sequence * shape.out_pitch + h * shape.head_dim,
                   lse + (b * shape.heads + h) * shape.sequence);
  }
}

void Attention::Impl::run_backward(const bf16* dout, const bf16* out, const bf16* qkv, const float* lse, bf16* dqkv,
                                   void* workspace) const {
  note_out(sim::Access::read, dout);
  note_out(sim::Access::read, out);
  note_qkv(sim::Access::read, qkv);
  sim::touch(sim::Access::read, lse, lse_bytes());
  note_qkv(sim::Access::write, dqkv);
  sim::touch(sim::Access::write, workspace, attention_workspace_bytes(shape));
  std::memset(workspace, 0xff, attention_workspace_bytes(shape));
  const std::int64_t group = shape.heads / shape.kv_heads;
  const auto elements = static_cast<std::size_t>(shape.sequence * shape.head_dim);
  std::vector<float> dk(elements), dv(elements), all_dk(elements), all_dv(elements);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const bf16* row = qkv + b * shape.sequence * shape.qkv_pitch;
    bf16* drow = dqkv + b * shape.sequence * shape.qkv_pitch;
    const std::int64_t rows_out = b * shape.sequence * shape.out_pitch;
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      const std::int64_t key = (shape.heads + kv) * shape.head_dim, value = key + shape.kv_heads * shape.head_dim;
      std::fill(all_dk.begin(), all_dk.end(), 0.0f);
      std::fill(all_dv.begin(), all_dv.end(), 0.0f);
      for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        const std::int64_t at = h * shape.head_dim;
        backward_head(head(), row + at, row + key, row + value, out + rows_out + at, dout + rows_out + at,
                      lse + (b * shape.heads + h) * shape.sequence, drow + at, dk, dv);
        for (std::size_t i = 0; i < elements; ++i) all_dk[i] += rounded(dk[i]), all_dv[i] += rounded(dv[i]);
      }
      for (std::int64_t i = 0; i < shape.sequence; ++i)
        for (std::int64_t d = 0; d < shape.head_dim; ++d) {
          drow[i * shape.qkv_pitch + key + d] =
              from_float<bf16>(all_dk[static_cast<std::size_t>(i * shape.head_dim + d)]);
          drow[i * shape.qkv_pitch + value + d] =
              from_float<bf16>(all_dv[static_cast<std::size_t>(i * shape.head_dim + d)]);
        }
    }
  }
}

Attention::Attention(MathLibrary& library, const AttentionPlan& plan) : impl_(std::make_unique<Impl>()) {
  impl_->shape = plan.shape;
  if (choose_backward(library.impl(), plan).way->by == AttentionBy::portable) impl_->own = plan.own;
  impl_->rotate_back = plan.rotate_back;
  if (const std::string refusal = attention_refusal(plan.shape, DType::bf16, library.impl().capability);
      !refusal.empty())
    throw Failure(Exit::toolchain, refusal);
  if (const std::string refusal =
          cudnn_release_refusal(cudnn_version(), plan.shape, !impl_->own, library.impl().capability);
      !refusal.empty())
    throw Failure(Exit::toolchain, refusal);
}

Attention::Attention(Attention&&) noexcept = default;
Attention::~Attention() = default;

void Attention::forward(Stream& stream, const void* qkv, void* out, float* lse) const {
  const Range range(stream, "attention forward");
  const Launched launched(stream.listener, stream, LaunchKind::attention);
  const sim::Guard guard;
  const Impl* impl = impl_.get();
  sim::enqueue(sim::stream_of(stream.handle), "attention forward",
               [=] { impl->run_forward(static_cast<const bf16*>(qkv), static_cast<bf16*>(out), lse); });
}

void Attention::backward(Stream& stream, const void* dout, const void* out, const void* qkv, const float* lse,
                         void* dqkv, void* workspace, const float* rope_table) const {
  const Range range(stream, "attention backward");
  const Launched launched(stream.listener, stream, LaunchKind::attention);
  if (impl_->own)
    return impl_->own(stream, static_cast<const bf16*>(dout), static_cast<const bf16*>(out),
                      static_cast<const bf16*>(qkv), lse, static_cast<bf16*>(dqkv), static_cast<float*>(workspace),
                      rope_table);
  const sim::Guard guard;
  const Impl* impl = impl_.get();
  sim::enqueue(sim::stream_of(stream.handle), "attention backward", [=] {
    impl->run_backward(static_cast<const bf16*>(dout), static_cast<const bf16*>(out), static_cast<const bf16*>(qkv),
                       lse, static_cast<bf16*>(dqkv), workspace);
    sim::spend(backward_ms());
  });
  if (impl->rotate_back) impl->rotate_back(stream, static_cast<bf16*>(dqkv), rope_table);
}

std::vector<std::string> library_versions() { return {cublaslt_version(), "simulated attention"}; }

}  // namespace llmc
