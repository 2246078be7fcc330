#include "data/documents.h"

namespace llmc {

void index_documents(MicroBatch& batch, std::int64_t length, const DocumentRule& rule) {
  const std::size_t n = batch.inputs.size(), sequence = static_cast<std::size_t>(length);
  batch.document_begin.resize(n);
  batch.document_end.resize(n);
  for (std::size_t first = 0; first < n; first += sequence) {
    for (std::size_t begin = 0, at = 0; at < sequence; ++at) {
      if (at + 1 < sequence && batch.inputs[first + at] != rule.separator) continue;
      for (std::size_t token = begin; token <= at; ++token) {
        batch.document_begin[first + token] = static_cast<std::int32_t>(begin);
        batch.document_end[first + token] = static_cast<std::int32_t>(at);
      }
      begin = at + 1;
    }
  }
}

void mask_first_targets(std::span<const std::int32_t> inputs, std::span<std::int32_t> targets,
                        const DocumentRule& rule) {
  if (!rule.mask_first) return;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] == rule.separator) targets[i] = -1;
}

}  // namespace llmc
