// The training step as data: typed tensors with constant shapes, and ops in the order in which they run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dtype.h"

namespace llmc::graph {

enum class Role {
  parameter,   // weights: fp32 masters
  copy,        // of a parameter in another type: what a cast op makes of it for the ops that read it
  gradient,    // of a parameter: fp32, accumulated over micro-batches
  constant,    // written once at start
  input,       // written by the host before each micro-batch
  activation,  // computed in the step
};

/// How many of a tensor there are: one a step, or one for each layer.
enum class Scope { step, layer };

using TensorId = int;
constexpr TensorId kNone = -1;

/// Row-major [rows, cols], `pitch` elements from row to row.
struct Tensor {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0, pitch = 0;
  Role role = Role::activation;
  Scope scope = Scope::step;
  TensorId storage = kNone;    // the tensor whose memory this one is: itself, or the one it overwrites
  TensorId partner = kNone;    // parameter <-> its gradient; of a copy: its parameter

  std::int64_t elements() const { return rows * pitch; }
  std::int64_t bytes() const { return bytes_of(dtype, elements()); }
};

enum class OpKind {
  embedding, rms_norm, linear, rope, attention, swiglu, add, cross_entropy, loss_sum, gather_rows,
  embedding_backward, rms_norm_backward, linear_dgrad, linear_wgrad, column_sum, column_reduce, rope_backward,
  attention_backward, swiglu_backward, cross_entropy_backward, zero,
  gradient_norm, gradient_clip, adamw, parameter_norms, initialise, cast,
};
const char* name_of(OpKind kind);

/// One operation. Which input is which stands beside check_signature() in verify.cpp.
struct Op {
  OpKind kind;
  std::string name;  // unique within a region, e.g. "qkv", "qkv_wgrad"
  std::vector<TensorId> inputs = {}, outputs = {};
  bool bias = false;         // linear: inputs[2] is the bias
  bool residual = false;     // linear, rms_norm_backward: the last input is added to the first output
  bool recompute = false;    // rms_norm_backward, swiglu_backward: the last output is the forward's output again
  bool copies = false;       // adamw: writes the parameters' copies too
  bool gradient = false;     // cross_entropy: logits are overwritten by their gradient
};

/// How often a region's ops run in one pass.
enum class Loop { once, layers_up, layers_down, loss_chunks };

/// Which functions of the trainer run a region.
enum class Part { forward, loss, backward, optimizer, evaluate, sample, initialise, refresh };

/// A run of ops, in order. Equal layers are one region and a list of the layers that it stands for.
struct Region {
  std::string name;
  Loop loop = Loop::once;
  Part part = Part::forward;
  std::vector<std::int64_t> layers = {};   // loop over layers: which
  std::vector<TensorId> saved = {};        // layer forward: kept for this region's backward twin, one copy a layer
  std::vector<Op> ops = {};
};

struct Graph {
  std::int64_t batch = 0, sequence = 0;         // one micro-batch: sequences, tokens of each
  std::int64_t layers = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t chunk_rows = 0;                  // rows of logits alive at once; 0 until chunk_loss
  double eps = 0;                               // RMSNorm
  std::vector<Tensor> tensors;
  std::vector<Region> regions;

  /// The residual stream between layers: layer l reads stream[l] and writes stream[l + 1].
  TensorId stream_in = kNone, stream_out = kNone, stream_final = kNone;
  /// Its gradient, one buffer that every layer's backward updates in place.
  TensorId dstream_in = kNone, dstream_out = kNone, dstream_final = kNone;

  std::int64_t tokens() const { return batch * sequence; }
  Tensor& at(TensorId id) { return tensors[static_cast<std::size_t>(id)]; }
  const Tensor& at(TensorId id) const { return tensors[static_cast<std::size_t>(id)]; }
  TensorId add(Tensor tensor);
  /// The tensor at the end of the chain of overwrites.
  TensorId storage(TensorId id) const;
  TensorId find(const std::string& name) const;  // kNone when there is none
  Region* region(const std::string& name);
};

/// Stable text form, one line a tensor and one line an op; what --dump-ir writes and tests compare.
std::string to_text(const Graph& graph);
std::string to_text(const Graph& graph, const Op& op);

}  // namespace llmc::graph
