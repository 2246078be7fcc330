// Collects the params and the launch shape of one instance of a template.
#pragma once

#include <string>

#include "compiler/ops/lanes.h"
#include "compiler/ops/op.h"

namespace llmc::ops {

// Spec keys that several params derive from.
constexpr const char* kTokens = "batch.micro_batch, batch.sequence_length";
constexpr const char* kStreamType = "precision.compute, precision.residual";
constexpr const char* kHidden = "model.hidden_size";
constexpr const char* kFfn = "model.intermediate_size";
constexpr const char* kVocab = "model.vocab_size";
constexpr const char* kHeadCounts = "model.num_attention_heads, model.num_key_value_heads";

class Instance {
 public:
  /// Instantiates templates/NAME.cu, which serves all targets.
  Instance(const Context& context, const std::string& template_name);
  /// Instantiates templates/cuda/NAME.cu or templates/cpu/NAME.cpp: each target has its own template.
  static Instance of_target(const Context& context, const std::string& template_name);

  Instance& element(DType dtype, const char* name = "Act", const char* origin = "precision.compute");
  Instance& integer(const char* name, std::int64_t value, const char* origin);
  Instance& real(const char* name, double value, const char* origin);
  /// Adds a flag; a set flag is part of the instance's name, if `suffix` is not empty.
  Instance& flag(const char* name, bool value, const char* suffix, const char* origin);
  /// Adds a flag: whether the buffers of this use have only a rank's shard, at the offsets of the optimizer's state.
  Instance& share(const char* name, Use use);
  /// kGroups: the groups of parameters that it works on, a bit each; -1 of all.
  Instance& groups(GroupSet groups);
  /// Whether headers and plans list the param that was added last: no, if it has the value that most runs have.
  Instance& said(bool said);
  /// Adds operands that only some instances have, as `, type name, type name`.
  Instance& further_operands(const std::string& declared, const char* origin);
  /// Sets the expansion of LLMC_MASK (device/mask.h).
  Instance& mask(const std::string& initialiser, const char* origin);
  /// Adds the params of norms whose weights are not plain; `gradient`: of a kernel that also sums those of the weights.
  Instance& norm_weight(spec::NormWeight weight, bool gradient = false);
  /// Adds the param and the operand of positions that begin anew in each document, if they do.
  Instance& resets(bool resets);
  /// Adds the param and the operand of the gradients' scale, if they have one.
  Instance& loss_scaled(bool scaled);
  /// Adds params and operands of a kernel that collects `rows` rows before it writes `piece` of their codes at once,
  /// transposed.
  Instance& collects(std::int64_t rows, std::int64_t piece);
  Instance& named(const std::string& suffix);
  /// Adds kRows, kCols and kPitch of a matrix, of which the op sees `rows`.
  Instance& matrix(const Tensor& t, std::int64_t rows, const char* cols_origin = kHidden);

  /// Sets the bytes and FLOPs of one launch.
  Instance& costs(double bytes, double flops);

  /// Processes all elements of flat buffers, chunk by chunk: of ranks that share the optimizer's state each its part.
  /// `in_blocks`: whose blocks share a scale.
  Work stream(const FlatSizes& flat, std::vector<Argument> arguments, bool in_blocks = false);
  /// Processes up to all elements of a bucket, in parts of kPart.
  Work parts(const FlatSizes& flat, std::vector<Argument> arguments);
  /// Divides the work among `groups` of lanes; each group holds rows of `width` elements of `dtype`. `work`: as for
  /// shaped(); the default is "GROUPS rows of WIDTH".
  Work rows(std::int64_t groups, std::int64_t width, DType dtype, std::vector<Argument> arguments,
            std::string work = "");
  /// `work`: the work of one launch, for the kernel's header.
  Work shaped(LaunchShape shape, std::string work, std::vector<Argument> arguments);

 private:
  bool cuda_;
  Shard shard_;
  std::int64_t ranks_;
  Work work_;
};

/// Returns the op's inputs, then its outputs.
std::vector<Argument> all_operands(const Op& op);

}  // namespace llmc::ops
