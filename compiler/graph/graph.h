// The training step as data: typed tensors with constant shapes, and ops in the order in which they run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/attributes.h"
#include "compiler/graph/kinds.h"
#include "compiler/graph/op_kinds.h"
#include "program/buffers.h"
#include "program/dtype.h"
#include "program/parameters.h"

namespace llmc::graph {

enum class Role {
  parameter,   // weights: fp32 masters
  copy,        // of a parameter in another type: what a cast op makes of it for the ops that read it
  gradient,    // of a parameter: fp32, accumulated over micro-batches
  constant,    // written once at start
  input,       // written by the host before a pass
  activation,  // computed in the step
  output,      // computed in the step, read by the host
  flat,        // of all parameters, which lie in it: their weights, their gradients, the optimizer's state
  bucket,      // a stretch of a flat one, which ranks reduce or gather at once
  wire,        // as ranks send a bucket's gradients, whichever it is: in a type of their own
};

/// How many of a tensor there are: one a step, one for each layer, or one for each boundary of a layer.
enum class Scope { step, layer, boundary };

/// What the rows of a tensor stand for, or the elements of one that has a single row.
enum class Axis { other, token, chunk };  // chunk: the tokens whose logits are alive at once

using TensorId = int;
constexpr TensorId kNone = -1;

/// A part of the model.
enum class Block { embed, layer, head, none };
/// As a forward pass reads their weights, vectors first.
constexpr Block kBlocksInOrder[] = {Block::none, Block::embed, Block::layer, Block::head};
const char* name_of(Block block);

/// How a parameter begins; standard deviations are those of the spec's init group.
enum class Init { zeros, ones, embedding, linear, residual };

/// A tensor of a Hugging Face checkpoint inside a parameter, which may have several.
struct Piece {
  std::string name;        // "lm_head.weight"; of a layer without "model.layers.N."
  std::int64_t begin = 0;  // row of a matrix, element of a vector
  std::int64_t size = 0;   // rows, or elements
  Init init = Init::zeros;
  bool matrix = true;
  int group = 0;  // index into Graph::groups
};

/// Row-major [rows, cols], `pitch` elements from row to row.
struct Tensor {
  std::string name;  // for people: nothing is decided by it
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0, pitch = 0;
  Role role = Role::activation;
  Scope scope = Scope::step;
  Axis axis = Axis::other;
  Use use = Use::unseen;           // what the host knows it as
  const char* record = nullptr;    // of bytes: the struct of device/types.h that a row holds
  std::int64_t halves = 1;         // equal parts of a row, each of which is padded on its own; of a parameter: pieces
  TensorId storage = kNone;        // the tensor whose memory this one is: itself, or the one it overwrites
  TensorId partner = kNone;        // parameter <-> its gradient; of a copy: its parameter; of a bucket: the flat one
  Block block = Block::none;       // of a parameter: where it is; of a bucket: whose matrices it has, none: all vectors
  std::vector<Piece> pieces = {};  // of a parameter
  // Of the optimizer's state: elements of parameters that one of its own stands for, and whose parameters it has.
  std::int64_t state_block = 1;
  GroupSet groups = kAllGroups;

  std::int64_t elements() const { return rows * pitch; }
  std::int64_t bytes() const { return bytes_of(dtype, elements()); }
};

/// Whose bucket a parameter's weights and gradients are in: its block's, which has the matrices, or that of
/// Block::none, which has the vectors of all blocks. Vectors are few, and read in another type than matrices.
inline Block bucket_of(const Tensor& parameter) { return parameter.pieces[0].matrix ? parameter.block : Block::none; }

/// Words of memory.recompute: what is computed again together.
enum class Group : unsigned {
  none = 0,
  norms = 1,
  qkv = 2,
  attention = 4,
  residual = 8,
  gate_up = 16,
  swiglu = 32,
  rest = 64
};
/// A set of groups.
using Groups = unsigned;
constexpr Groups kRecomputeAll = 127;

using OpId = int;

/// One operation. Which input is which stands in the op's file in compiler/ops.
struct Op {
  OpKind kind;
  std::string name;  // for people and emitted sources, e.g. "qkv", "qkv_wgrad"
  std::vector<TensorId> inputs = {}, outputs = {};
  Attributes attributes = {};
  OpId id = kNone;            // of a forward op; the same when it is computed again
  OpId of = kNone;            // of a backward op: the forward op whose gradient it computes
  Group group = Group::rest;  // of a layer's forward op
  bool again = false;         // computed a second time, in the backward pass

  /// Its attributes, where they are those of its kind. Throws Failure(internal) where they are others.
  template <class T>
  const T& as() const {
    if (const T* own = std::get_if<T>(&attributes)) return *own;
    refuse_attributes();
  }
  template <class T>
  T& as() {
    return const_cast<T&>(std::as_const(*this).as<T>());
  }
  /// Its name, unique within a region.
  std::string label() const { return again ? name + "_again" : name; }

 private:
  [[noreturn]] void refuse_attributes() const;
};

/// How often a region's ops run in one pass.
enum class Loop { once, layers_up, layers_down, loss_chunks };

/// What a region is for; which functions of the trainer run it.
enum class Part {
  forward,
  loss,
  backward,
  reduce,  // of gradients over the ranks, in the last micro-batch of a step, or where they are shared out in each
  optimizer,
  gather,  // of weights from the ranks that have updated them
  evaluate,
  sample,
  audit,
  initialise,
  refresh
};

/// The residual stream, or its gradient: the tensors at the boundaries of layers. Layer l reads boundary l and writes
/// boundary l + 1; the embedding writes the first one, the head reads the last one.
struct ResidualStream {
  TensorId first = kNone, below = kNone, above = kNone, last = kNone;
  bool has(TensorId id) const { return id != kNone && (id == first || id == below || id == above || id == last); }
};

constexpr int kAllVariants = -1;

/// A run of ops, in order. Layers of one variant, a kind and what is computed again, are one region.
struct Region {
  std::string name;           // of the function in emitted sources: nothing is decided by it
  Block block = Block::none;  // which part of the model it computes
  Part part = Part::forward;
  Loop loop = Loop::once;
  int variant = 0;                             // block layer: which of Graph::variants it stands for, or kAllVariants
  std::optional<LayerKind> kind = {};          // of kAllVariants: the layers' kind; none: layers of all kinds
  TensorId ResidualStream::*reads = nullptr;   // forward: where the block takes the stream from
  TensorId ResidualStream::*writes = nullptr;  // and where it puts it
  std::vector<TensorId> saved = {};  // layer: what its forward region keeps for its backward twin, one copy a layer
  std::vector<Op> ops = {};

  bool is_forward() const { return part == Part::forward; }
  bool is_loss() const { return part == Part::loss; }
  bool is_backward() const { return part == Part::backward; }
  /// Whether it runs for each micro-batch on this rank's own samples.
  bool trains() const { return is_forward() || is_loss() || is_backward(); }
  bool is_collective() const { return part == Part::reduce || part == Part::gather; }
  bool is_optimizer() const { return part == Part::optimizer; }
  bool is_audit() const { return part == Part::audit; }
  /// Whether both are the passes of the same layers.
  bool is_twin(const Region& other) const {
    return block == Block::layer && other.block == Block::layer && variant == other.variant;
  }
};

struct Graph {
  std::int64_t batch = 0, sequence = 0;  // one micro-batch: sequences, tokens of each
  std::vector<LayerKind> kinds;          // of each layer
  std::vector<int> variants;             // of each layer: which regions compute it
  std::int64_t chunk_rows = 0;           // rows of logits alive at once; 0 until chunk_loss
  std::vector<Tensor> tensors;
  std::vector<Region> regions;
  ResidualStream stream, dstream;  // dstream: one buffer that every layer's backward pass updates in place
  std::vector<ParameterGroup> groups;
  OpId next_op = 0;

  std::int64_t tokens() const { return batch * sequence; }
  std::int64_t layers() const { return static_cast<std::int64_t>(variants.size()); }
  /// How many variants of layers there are.
  int variant_count() const;
  /// Whether the region of a layer's ops runs them for the layers of `variant`.
  bool serves(const Region& region, int variant) const;
  Tensor& at(TensorId id) { return tensors[static_cast<std::size_t>(id)]; }
  const Tensor& at(TensorId id) const { return tensors[static_cast<std::size_t>(id)]; }
  TensorId add(Tensor tensor);
  /// `rows` structs of device/types.h, which the host knows as `use`.
  TensorId add_records(const char* name, Use use, Role role, const char* record, std::size_t bytes,
                       std::int64_t rows = 1);
  /// The first tensor that the host knows as `use`. Throws Failure(internal) where there is none.
  TensorId host(Use use) const;
  /// The tensor at the end of the chain of overwrites.
  TensorId storage(TensorId id) const;
  /// The same, where the gradient of the residual stream is one buffer from the loss to the embedding.
  TensorId buffer(TensorId id) const {
    const TensorId root = storage(id);
    return dstream.has(root) ? storage(dstream.above) : root;
  }
  /// The first region of this kind. Throws Failure(internal) where there is none.
  Region& region(Block block, Part part);
  /// The same, and of layers the one that those of `variant` run; null where there is none.
  const Region* find(Part part, Block block, int variant = 0) const;
  /// The forward pass of the layers of `variant`.
  const Region& layer_forward(int variant) const { return *find(Part::forward, Block::layer, variant); }
  std::size_t index_of(const Region& region) const { return static_cast<std::size_t>(&region - regions.data()); }
  /// How many layers the region stands for.
  std::int64_t layers_of(const Region& region) const;
  /// Whether the tensor has a row for each token of a micro-batch.
  bool row_a_token(const Tensor& t) const { return t.axis == Axis::token && t.rows == tokens(); }
  /// Rows that an op of `region` sees of a tensor: in a loss chunk, `chunk_rows` of one with a row for each token.
  std::int64_t rows_seen(const Region& region, const Tensor& t) const {
    return region.loop == Loop::loss_chunks && row_a_token(t) ? chunk_rows : t.rows;
  }
  /// Bytes from where an op of `region` finds a tensor in one loss chunk to where it does in the next; 0: the same
  /// place.
  std::int64_t chunk_step(const Region& region, const Tensor& t) const {
    if (region.loop != Loop::loss_chunks || t.axis != Axis::token) return 0;
    return chunk_rows * bytes_of(t.dtype, row_a_token(t) ? t.pitch : 1);
  }
};

}  // namespace llmc::graph
