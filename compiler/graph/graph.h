// Describes the training step: typed tensors of constant shapes, and ops in the order in which they run.
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
  copy,        // of a parameter in another dtype: written by a cast op for the ops that read it
  gradient,    // of a parameter: fp32, accumulated over micro-batches
  constant,    // written once at start
  input,       // written by the host before a pass
  activation,  // computed in the step
  rounded,     // what an op that runs once makes of weights: kept for all passes with the same weights
  output,      // computed in the step, read by the host
  flat,        // one buffer that holds a tensor of every parameter: weights, gradients, optimizer state
  bucket,      // a range of a flat buffer that ranks reduce or gather at once
  wire,        // a bucket's gradients as ranks send them, in their own dtype; shared by all buckets
};

/// Copies of a tensor: one per step, one per layer, or one per boundary of a layer.
enum class Scope { step, layer, boundary };

/// Meaning of a tensor's rows; of its elements if it has a single row.
enum class Axis { other, token, chunk };  // chunk: the tokens whose logits are live at once

using TensorId = int;
constexpr TensorId kNone = -1;

/// A part of the model.
enum class Block { embed, layer, head, none };
/// In the order in which a forward pass reads their weights, vectors first.
constexpr Block kBlocksInOrder[] = {Block::none, Block::embed, Block::layer, Block::head};
const char* name_of(Block block);

/// Initial values of a parameter; the spec's init group has the standard deviations.
enum class InitClass { zeros, ones, embedding, linear, residual };

/// A tensor of a Hugging Face checkpoint. A parameter concatenates one or more of them.
struct ParameterPiece {
  std::string name;        // "lm_head.weight"; of a layer without "model.layers.N."
  std::int64_t begin = 0;  // first row of a matrix, first element of a vector
  std::int64_t size = 0;   // rows, or elements
  InitClass init = InitClass::zeros;
  bool matrix = true;
  int group = 0;  // index into Graph::groups
};

/// Row-major [rows, cols], `pitch` elements from row to row.
struct Tensor {
  std::string name;  // for people: no decision depends on it
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0, pitch = 0;
  Role role = Role::activation;
  Scope scope = Scope::step;
  Axis axis = Axis::other;
  Use use = Use::unseen;         // the host's name for it
  const char* record = nullptr;  // of bytes: the struct of device/types.h in a row
  std::int64_t halves = 1;       // equal parts of a row, each padded separately; of a parameter: of its pieces
  TensorId storage = kNone;      // the tensor whose memory it uses: itself, or the one that it overwrites
  TensorId partner = kNone;      // parameter <-> its gradient; of a copy: its parameter; of a bucket: its flat buffer
  Block block = Block::none;     // of a parameter: its block; of a bucket: the block of its matrices; none: vectors
                                 // of all blocks
  std::vector<ParameterPiece> pieces = {};  // of a parameter
  // Of the optimizer's state: elements of parameters that one of its own stands for, and whose parameters it has.
  std::int64_t state_block = 1;
  GroupSet groups = kAllGroups;
  const char* saved_as = nullptr;  // as Buffer::saved_as

  std::int64_t elements() const { return rows * pitch; }
  std::int64_t bytes() const { return bytes_of(dtype, elements()); }
};

/// Returns the bucket of a parameter's weights and gradients: a block's has its matrices, Block::none's the vectors of
/// all blocks. Vectors are few, and are read in another dtype than matrices.
inline Block bucket_of(const Tensor& parameter) { return parameter.pieces[0].matrix ? parameter.block : Block::none; }

/// Returns the use of the flat buffer with the copies of parameters in a dtype.
constexpr Use copies_use(DType type) {
  return type == DType::rest ? Use::rest : type == DType::tie ? Use::ties : Use::copies;
}

/// Values of memory.recompute: ops that are recomputed together.
enum class RecomputeGroup : unsigned {
  none = 0,
  norms = 1,
  qkv = 2,
  attention = 4,
  residual = 8,
  gate_up = 16,
  swiglu = 32,
  down = 64,
  rest = 128
};
/// A set of groups.
using RecomputeGroups = unsigned;
constexpr RecomputeGroups kRecomputeAll = 255;

using OpId = int;

/// A result that its op's kernel rounds to e4m3 (ops/quantising/quantise.h), so that no kernel reads it for that.
struct Quantised {
  int output = 0;           // of the op's own
  bool folded = false;      // its columns are multiplied by factors before
  bool alone = false;       // nothing else reads it: the kernel does not write it
  bool transposed = false;  // its codes are transposed, and share the largest of its rows' scales, which are known
};

/// One operation. Its file in compiler/ops documents the order of its inputs.
struct Op {
  OpKind kind;
  std::string name;  // for people and emitted sources, e.g. "qkv", "qkv_wgrad"
  std::vector<TensorId> inputs = {}, outputs = {};
  Attributes attributes = {};
  std::vector<Quantised> quantised = {};        // whose operands follow the op's own
  OpId id = kNone;                              // of a forward op; a recomputed copy has the same
  OpId of = kNone;                              // of a backward op: the forward op that it differentiates
  RecomputeGroup group = RecomputeGroup::rest;  // of a layer's forward op
  bool again = false;                           // recomputed in the backward pass
  bool once = false;  // reads weights alone: only the first pass with the same weights runs it

  /// Returns its attributes. Throws Failure(internal) if they are not those of its kind.
  template <class T>
  const T& as() const {
    if (const T* own = std::get_if<T>(&attributes)) return *own;
    refuse_attributes();
  }
  template <class T>
  T& as() {
    return const_cast<T&>(std::as_const(*this).as<T>());
  }
  /// Returns its name, unique within a region.
  std::string label() const { return again ? name + "_again" : name; }

 private:
  [[noreturn]] void refuse_attributes() const;
};

/// Executions of a region's ops in one pass.
enum class Loop { once, layers_up, layers_down, loss_chunks };

/// Purpose of a region; selects the functions of the trainer that run it.
enum class Part {
  forward,
  loss,
  backward,
  reduce,         // of gradients over ranks: in the last micro-batch of a step, or in each if gradients are sharded
  prepare,        // an optimizer that orthogonalises: what precedes it
  to_owners,      // of Muon: a layer's momentum, from the ranks that have its shards to those that orthogonalise it
  orthogonalise,  // a matrix of a layer, on the rank that owns it
  from_owners,
  optimizer,
  gather,  // of weights from the ranks that updated them
  evaluate,
  sample,
  audit,
  initialise,
  refresh,
  join  // of split masters, for the host
};

/// Tensors of the residual stream, or of its gradient, at the boundaries of layers. Layer l reads boundary l and writes
/// boundary l + 1. The embedding writes the first boundary and the head reads the last.
struct ResidualStream {
  TensorId first = kNone, below = kNone, above = kNone, last = kNone;
  bool has(TensorId id) const { return id != kNone && (id == first || id == below || id == above || id == last); }
};

constexpr int kAllVariants = -1;
constexpr int kNoMatrix = -1;

/// Ops that run in sequence. Layers of one variant (the same kind and recomputed ops) share a region.
struct Region {
  std::string name;           // of the function in emitted sources: no decision depends on it
  Block block = Block::none;  // the part of the model that it computes
  Part part = Part::forward;
  Loop loop = Loop::once;
  int variant = 0;                              // block layer: which of Graph::variants it stands for, or kAllVariants
  std::optional<LayerKind> kind = {};           // of kAllVariants: the layers' kind; none: layers of all kinds
  TensorId ResidualStream::* reads = nullptr;   // forward: where the block takes the stream from
  TensorId ResidualStream::* writes = nullptr;  // and where it puts it
  int matrix = kNoMatrix;                       // orthogonalise: which of a layer's (orthogonal_matrices)
  std::vector<TensorId> saved = {};  // layer: what its forward region keeps for its backward region, one copy a layer
  std::vector<Op> ops = {};

  bool is_forward() const { return part == Part::forward; }
  bool is_loss() const { return part == Part::loss; }
  bool is_backward() const { return part == Part::backward; }
  /// Whether it runs on this rank's own samples in each micro-batch.
  bool trains() const { return is_forward() || is_loss() || is_backward(); }
  bool is_collective() const {
    return part == Part::reduce || part == Part::gather || part == Part::to_owners || part == Part::from_owners;
  }
  /// Whether it is a part of the optimizer's step, other than collectives.
  bool is_optimizer() const { return part == Part::prepare || part == Part::orthogonalise || part == Part::optimizer; }
  bool is_audit() const { return part == Part::audit; }
  /// Whether its collectives sum the gradients of ranks.
  bool reduces_gradients() const { return part == Part::reduce; }
  /// Whether its collectives bring weights to all ranks.
  bool gathers_weights() const { return part == Part::gather; }
  /// Whether both are passes of the same layers.
  bool is_twin(const Region& other) const {
    return block == Block::layer && other.block == Block::layer && variant == other.variant;
  }
};

/// Returns the region that joins split masters for the host.
inline Region join_region(std::vector<Op> ops) { return {.name = "join", .part = Part::join, .ops = std::move(ops)}; }

/// Returns the region that orthogonalises a matrix of each layer.
inline Region orthogonalising_region(std::string name, int matrix, std::vector<Op> ops) {
  return {.name = std::move(name),
          .block = Block::layer,
          .part = Part::orthogonalise,
          .loop = Loop::layers_up,
          .variant = kAllVariants,
          .matrix = matrix,
          .ops = std::move(ops)};
}

struct Graph {
  std::int64_t batch = 0, sequence = 0;  // one micro-batch: sequences, tokens of each
  std::vector<LayerKind> kinds;          // of each layer
  std::vector<int> variants;             // of each layer: the variant of the regions that compute it
  std::int64_t chunk_rows = 0;           // rows of logits that are live at once; 0 until chunk_loss
  std::vector<Tensor> tensors;
  std::vector<Region> regions;
  ResidualStream stream, dstream;  // dstream: one buffer that every layer's backward pass updates in place
  std::vector<ParameterGroup> groups;
  std::vector<std::string> reports;  // names of the elements of Use::reports, as in metrics.jsonl
  OpId next_op = 0;

  std::int64_t tokens() const { return batch * sequence; }
  std::int64_t layers() const { return static_cast<std::int64_t>(variants.size()); }
  /// Number of variants of layers.
  int variant_count() const;
  /// Whether the region computes the layers of `variant`.
  bool serves(const Region& region, int variant) const;
  Tensor& at(TensorId id) { return tensors[static_cast<std::size_t>(id)]; }
  const Tensor& at(TensorId id) const { return tensors[static_cast<std::size_t>(id)]; }
  TensorId add(Tensor tensor);
  /// Adds a tensor with the rows and columns of `id`, in another dtype.
  TensorId add_rounded(TensorId id, std::string name, DType dtype, Scope scope);
  /// Adds the copy of a parameter in another dtype, which is a part of a flat buffer.
  TensorId add_copy(TensorId parameter, DType dtype);
  /// Adds `rows` structs of device/types.h, known to the host as `use`.
  TensorId add_records(const char* name, Use use, Role role, const char* record, std::size_t bytes,
                       std::int64_t rows = 1);
  /// Adds a figure that the step reports under `name`: an element of Use::reports, a sum over micro-batches and ranks
  /// that ops accumulate. Returns its index.
  std::size_t add_report(const std::string& name);
  /// Returns the first tensor known to the host as `use`. Throws Failure(internal) if there is none.
  TensorId host(Use use) const;
  /// Returns the tensor at the end of the chain of overwrites.
  TensorId storage(TensorId id) const;
  /// Does the same, except that the gradient of the residual stream is one buffer from the loss to the embedding.
  TensorId buffer(TensorId id) const {
    const TensorId root = storage(id);
    return dstream.has(root) ? storage(dstream.above) : root;
  }
  /// Returns the first region of this kind. Throws Failure(internal) if there is none.
  Region& region(Block block, Part part);
  /// Does the same; of layers, returns the region of `variant`. Null if there is none.
  const Region* find(Part part, Block block, int variant = 0) const;
  /// Returns the forward pass of the layers of `variant`.
  const Region& layer_forward(int variant) const { return *find(Part::forward, Block::layer, variant); }
  std::size_t index_of(const Region& region) const { return static_cast<std::size_t>(&region - regions.data()); }
  /// Number of layers that the region computes.
  std::int64_t layers_of(const Region& region) const;
  /// Whether the tensor has a row for each token of a micro-batch.
  bool row_a_token(const Tensor& t) const { return t.axis == Axis::token && t.rows == tokens(); }
  /// Rows of a tensor that an op of `region` sees: `chunk_rows` in a loss chunk if it has a row for each token.
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
