// What ops between ranks have in common: the shares of a bucket in words of the emitted step, and most of their rows.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/rows.h"

namespace llmc::ops {

/// Elements of one rank's share.
std::string share_text(const Tensor& bucket);

/// Where this rank's share begins in a buffer of shares.
std::string share_begin(const Context& c, const Tensor& bucket);

/// Of an op that stands after differentiation and works on whole buckets, which have places of their own.
constexpr Row row_between_ranks(OpKind kind, void (*signature)(const Operands&),
                                std::vector<Work> (*work)(const Context&)) {
  return {.kind = kind,
          .signature = signature,
          .weight_type = reads_fp32,
          .exact = kNoOutputs,
          .writes_stream = false,
          .gradient = no_gradient,
          .gives_forward = false,
          .row_sum = kNoSum,
          .overwrites = in_a_new_place,
          .scratch = no_scratch,
          .stream_elements = off_the_stream,
          .work = work};
}

}  // namespace llmc::ops
