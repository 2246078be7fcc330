// Documents inside the samples of a run: they end with a separator, a token of their own.
#pragma once

#include <cstdint>
#include <span>

#include "data/micro_batch.h"

namespace llmc {

struct DocumentRule {
  std::int32_t separator = -1;  // the last token of each document; -1: samples are not divided
  bool mask_first = false;      // the first token of a document is no target: the one before it does not announce it

  bool divides() const { return separator >= 0; }
};

/// Writes document_begin and document_end of a batch with sequences of `length` tokens: the offsets in the sequence of
/// the first and the last token of each token's document. A sequence's ends are borders too.
void index_documents(MicroBatch& batch, std::int64_t length, const DocumentRule& rule);

/// Sets targets after a separator to -1 if the rule masks them. Both spans are of one sequence.
void mask_first_targets(std::span<const std::int32_t> inputs, std::span<std::int32_t> targets,
                        const DocumentRule& rule);

}  // namespace llmc
