#include "math/attention.h"

#include <cudnn.h>
#include <cudnn_frontend.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "device/cuda/stream.h"
#include "device/range.h"
#include "device/types.h"
#include "error.h"
#include "math/cublaslt/library.h"
#include "math/cudnn/backward_choice.h"

namespace llmc {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Tensor_attributes>;

/// Ids of the graphs' tensors, which map addresses to a call.
enum Id : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv };

std::string text(const AttentionShape& shape, const AttentionSlice& slice) {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const std::int64_t group = shape.heads / shape.kv_heads;
  return "[batch " + number(slice.batch) + ", sequence " + number(shape.sequence) + ", heads " +
         number(slice.kv_heads * group) + " over " + number(slice.kv_heads) + ", head_dim " + number(shape.head_dim) +
         "] in bf16" + (shape.deterministic ? ", deterministic" : "") +
         (shape.window ? ", window " + number(shape.window) : "");
}

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Failure(Exit::toolchain, cudnn_name() + ": " + call + " says " + cudnnGetErrorString(status));
}

/// cuDNN's mask is a band of the scores with the diagonal as its right bound. The left bound counts the query's own
/// key.
template <class Attributes>
void set_mask(Attributes& attributes, const AttentionShape& shape) {
  attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
  if (shape.window) attributes.set_diagonal_band_left_bound(shape.window);
}

/// Backward's slices and forward's whole batch, as cuDNN views the packed rows.
class Tensors {
 public:
  Tensors(fe::graph::Graph& graph, const AttentionShape& shape, AttentionSlice slice)
      : graph_(graph), shape_(shape), slice_(slice), group_(shape.heads / shape.kv_heads) {
    graph.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  Tensor query(Id id) {
    return graph_.tensor(place(Tensor_attributes(), id, slice_.kv_heads * group_, shape_.qkv_pitch));
  }
  Tensor key(Id id) { return graph_.tensor(place(Tensor_attributes(), id, slice_.kv_heads, shape_.qkv_pitch)); }
  Tensor out(Id id) {
    return graph_.tensor(place(Tensor_attributes(), id, slice_.kv_heads * group_, shape_.out_pitch));
  }
  Tensor lse() { return graph_.tensor(place_lse(Tensor_attributes())); }

  void result_query(const Tensor& tensor, Id id) { result(tensor, id, slice_.kv_heads * group_, shape_.qkv_pitch); }
  void result_key(const Tensor& tensor, Id id) { result(tensor, id, slice_.kv_heads, shape_.qkv_pitch); }
  void result_out(const Tensor& tensor, Id id) { result(tensor, id, slice_.kv_heads * group_, shape_.out_pitch); }
  void result_lse(const Tensor& tensor) { place_lse(*tensor).set_output(true); }

 private:
  template <class Attributes>
  Attributes&& place(Attributes&& attributes, Id id, std::int64_t heads, std::int64_t pitch) const {
    attributes.set_uid(id)
        .set_dim({slice_.batch, heads, shape_.sequence, shape_.head_dim})
        .set_stride({shape_.sequence * pitch, shape_.head_dim, pitch, 1})
        .set_data_type(fe::DataType_t::BFLOAT16);
    return std::forward<Attributes>(attributes);
  }
  /// cuDNN requires these packed; a slice of the heads is packed only because it has one sequence.
  template <class Attributes>
  Attributes&& place_lse(Attributes&& attributes) const {
    attributes.set_uid(kLse)
        .set_dim({slice_.batch, slice_.kv_heads * group_, shape_.sequence, 1})
        .set_stride({slice_.kv_heads * group_ * shape_.sequence, shape_.sequence, 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
    return std::forward<Attributes>(attributes);
  }
  void result(const Tensor& tensor, Id id, std::int64_t heads, std::int64_t pitch) const {
    place(*tensor, id, heads, pitch).set_output(true);
  }

  fe::graph::Graph& graph_;
  const AttentionShape& shape_;
  AttentionSlice slice_;
  std::int64_t group_;
};

}  // namespace

std::size_t cudnn_version() { return cudnnGetVersion(); }

struct Attention::Impl {
  MathLibrary::Impl* library;
  AttentionShape shape;
  OwnBackward own = nullptr;  // null: cuDNN's
  RotateBack rotate_back = nullptr;
  AttentionSlice slice;  // of backward
  cudnnHandle_t handle = nullptr;
  fe::graph::Graph forward, backward;

  ~Impl() {
    if (handle) cudnnDestroy(handle);
  }

  void describe_forward();
  void describe_backward();
  std::size_t build(fe::graph::Graph& graph, const char* pass, AttentionSlice slice);
  void execute(const fe::graph::Graph& graph, const char* pass, Stream& stream,
               std::unordered_map<std::int64_t, void*>& addresses, void* workspace) const;
};

void Attention::Impl::describe_forward() {
  Tensors tensors(forward, shape, {shape.batch, shape.kv_heads});
  auto options =
      fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true).set_attn_scale(shape.scale());
  set_mask(options, shape);
  auto [out, lse] = forward.sdpa(tensors.query(kQ), tensors.key(kK), tensors.key(kV), options);
  tensors.result_out(out, kOut);
  tensors.result_lse(lse);
}

void Attention::Impl::describe_backward() {
  Tensors tensors(backward, shape, slice);
  auto options = fe::graph::SDPA_backward_attributes()
                     .set_name("attention_backward")
                     .set_attn_scale(shape.scale())
                     .set_deterministic_algorithm(shape.deterministic);
  set_mask(options, shape);
  auto [dq, dk, dv] = backward.sdpa_backward(tensors.query(kQ), tensors.key(kK), tensors.key(kV), tensors.out(kOut),
                                             tensors.out(kDout), tensors.lse(), options);
  tensors.result_query(dq, kDq);
  tensors.result_key(dk, kDk);
  tensors.result_key(dv, kDv);
}

/// Returns the workspace that the plan needs.
std::size_t Attention::Impl::build(fe::graph::Graph& graph, const char* pass, AttentionSlice part) {
  std::int64_t bytes = 0;
  auto status = graph.build(handle, {fe::HeurMode_t::A});
  if (status.is_good()) status = graph.get_workspace_size(bytes);
  if (status.is_bad())
    throw Failure(Exit::toolchain, cudnn_name() + " has no causal attention " + pass + " for " + text(shape, part) +
                                       " on sm_" + std::to_string(library->capability) + ": " + status.get_message());
  return static_cast<std::size_t>(bytes);
}

void Attention::Impl::execute(const fe::graph::Graph& graph, const char* pass, Stream& stream,
                              std::unordered_map<std::int64_t, void*>& addresses, void* workspace) const {
  check(cudnnSetStream(handle, stream.handle), "cudnnSetStream");
  auto status = graph.execute(handle, addresses, workspace);
  if (status.is_bad())
    throw Failure(Exit::internal, cudnn_name() + " failed in attention " + pass +
                                      ", although it supports the shape: " + status.get_message());
}

Attention::Attention(MathLibrary& library, const AttentionPlan& plan) : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  const AttentionShape& shape = plan.shape;
  impl.library = &library.impl();
  impl.shape = shape;
  if (choose_backward(*impl.library, plan).way->by == AttentionBy::portable) impl.own = plan.own;
  impl.rotate_back = plan.rotate_back;
  impl.slice = attention_slice(shape);
  if (const std::string refusal = attention_refusal(shape, DType::bf16, impl.library->capability); !refusal.empty())
    throw Failure(Exit::toolchain, refusal);
  if (const std::string refusal = cudnn_release_refusal(cudnn_version(), shape, !impl.own, impl.library->capability);
      !refusal.empty())
    throw Failure(Exit::toolchain, refusal);
  check(cudnnCreate(&impl.handle), "cudnnCreate");

  impl.describe_forward();
  const std::size_t forward = impl.build(impl.forward, "forward", {shape.batch, shape.kv_heads});
  if (forward > impl.library->workspace_bytes)
    throw Failure(Exit::does_not_fit,
                  cudnn_name() + " needs " + std::to_string(forward) + " bytes of workspace for attention forward of " +
                      text(shape, {shape.batch, shape.kv_heads}) + ", but the plan reserves " +
                      std::to_string(impl.library->workspace_bytes) + ". Use another release of cuDNN 9");
  if (impl.own) return;
  impl.describe_backward();
  const std::size_t backward = impl.build(impl.backward, "backward", impl.slice);
  if (const std::size_t planned = attention_workspace_bytes(shape); backward > planned)
    throw Failure(Exit::does_not_fit, cudnn_name() + " needs " + std::to_string(backward) +
                                          " bytes of workspace for attention backward of " + text(shape, impl.slice) +
                                          ", but the plan reserves " + std::to_string(planned) +
                                          ". Use another release of cuDNN 9, or deterministic: false");
}

Attention::Attention(Attention&&) noexcept = default;
Attention::~Attention() = default;

void Attention::forward(Stream& stream, const void* qkv, void* out, float* lse) const {
  const Range range(stream, "attention forward");
  const Launched launched(stream.listener, stream, LaunchKind::attention);
  const Impl& impl = *impl_;
  const AttentionShape& shape = impl.shape;
  auto* rows = const_cast<bf16*>(static_cast<const bf16*>(qkv));
  std::unordered_map<std::int64_t, void*> addresses = {{kQ, rows},
                                                       {kK, rows + shape.heads * shape.head_dim},
                                                       {kV, rows + (shape.heads + shape.kv_heads) * shape.head_dim},
                                                       {kOut, out},
                                                       {kLse, lse}};
  impl.execute(impl.forward, "forward", stream, addresses, impl.library->workspace);
}

void Attention::backward(Stream& stream, const void* dout, const void* out, const void* qkv, const float* lse,
                         void* dqkv, void* workspace, const float* rope_table) const {
  const Range range(stream, "attention backward");
  const Launched launched(stream.listener, stream, LaunchKind::attention);
  const Impl& impl = *impl_;
  if (impl.own)
    return impl.own(stream, static_cast<const bf16*>(dout), static_cast<const bf16*>(out),
                    static_cast<const bf16*>(qkv), lse, static_cast<bf16*>(dqkv), static_cast<float*>(workspace),
                    rope_table);
  const AttentionShape& shape = impl.shape;
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (std::int64_t sequence = 0; sequence < shape.batch; sequence += impl.slice.batch)
    for (std::int64_t kv_head = 0; kv_head < shape.kv_heads; kv_head += impl.slice.kv_heads) {
      const std::int64_t row = sequence * shape.sequence, head = kv_head * group;
      const auto query = [&](const void* rows, std::int64_t pitch) {
        return const_cast<bf16*>(static_cast<const bf16*>(rows)) + row * pitch + head * shape.head_dim;
      };
      const auto key = [&](const void* rows, std::int64_t first) {
        return const_cast<bf16*>(static_cast<const bf16*>(rows)) + row * shape.qkv_pitch +
               (first + kv_head) * shape.head_dim;
      };
      const std::int64_t keys = shape.heads, values = shape.heads + shape.kv_heads;
      std::unordered_map<std::int64_t, void*> addresses = {
          {kQ, query(qkv, shape.qkv_pitch)},
          {kK, key(qkv, keys)},
          {kV, key(qkv, values)},
          {kOut, query(out, shape.out_pitch)},
          {kDout, query(dout, shape.out_pitch)},
          {kLse, const_cast<float*>(lse) + (sequence * shape.heads + head) * shape.sequence},
          {kDq, query(dqkv, shape.qkv_pitch)},
          {kDk, key(dqkv, keys)},
          {kDv, key(dqkv, values)}};
      impl.execute(impl.backward, "backward", stream, addresses, workspace);
    }
  if (impl.rotate_back) impl.rotate_back(stream, static_cast<bf16*>(dqkv), rope_table);
}

}  // namespace llmc
