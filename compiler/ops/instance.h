// Collects the params and the launch shape of one instance of a template.
#pragma once

#include <string>

#include "compiler/ops/lanes.h"
#include "compiler/ops/op.h"

namespace llmc::ops {

// Spec keys that several params come from.
constexpr const char* kTokens = "batch.micro_batch, batch.sequence_length";
constexpr const char* kStreamType = "precision.compute, precision.residual";
constexpr const char* kHidden = "model.hidden_size";
constexpr const char* kFfn = "model.intermediate_size";
constexpr const char* kVocab = "model.vocab_size";
constexpr const char* kHeadCounts = "model.num_attention_heads, model.num_key_value_heads";

class Instance {
 public:
  Instance(const Context& context, std::string template_name);

  Instance& element(DType dtype, const char* name = "Act", const char* origin = "precision.compute");
  Instance& integer(const char* name, std::int64_t value, const char* origin);
  Instance& real(const char* name, double value, const char* origin);
  /// A flag that is set is part of the instance's name.
  Instance& flag(const char* name, bool value, const char* suffix, const char* origin);
  Instance& named(const std::string& suffix);
  /// kRows, kCols and kPitch of a matrix, of which the op sees `rows`.
  Instance& matrix(const Tensor& t, std::int64_t rows, const char* cols_origin = kHidden);

  /// What one launch moves and computes.
  Instance& costs(double bytes, double flops);

  /// `groups` of lanes, each with `width` fp32 elements of flat buffers at a time.
  Work stream(std::int64_t groups, std::int64_t width, std::vector<Argument> arguments);
  /// `groups` of lanes share the work; each holds rows of `width` elements of `dtype`.
  Work rows(std::int64_t groups, std::int64_t width, DType dtype, std::vector<Argument> arguments);
  Work shaped(LaunchShape shape, std::int64_t groups, std::int64_t width, std::vector<Argument> arguments);

 private:
  bool cuda_;
  Work work_;
};

/// The flat buffer of the weights' copies, in the emitted step.
std::string copies_buffer(DType type);

/// The op's inputs, then its outputs.
std::vector<Argument> all_operands(const Op& op);

}  // namespace llmc::ops
