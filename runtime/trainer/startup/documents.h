// Finds the token that ends the documents of a run's data.
#pragma once

#include "data/documents.h"
#include "data/tokenizer.h"
#include "spec/spec.h"

namespace llmc {

/// Token that ends documents as the training data's dataset.json records it, or as their .idx files show; -1: neither.
/// Paths are resolved. Throws Failure(data) if sources of a mixture record different ones.
std::int32_t recorded_separator(const spec::Data& data);

/// Rule of data.documents, with paths resolved; it divides nothing without mask and mask_first. The separator is the
/// spec's, else recorded_separator(), else that of `tokenizer` (null: none), else -1. Throws Failure(data) as
/// recorded_separator().
DocumentRule find_documents(const spec::Data& data, const Tokenizer* tokenizer);

/// Same for training and evaluation, where the separator must be known, be a token of the model, and not be another one
/// than the end of text of the tokenizer, unless the spec names it. Opens data.tokenizer if it has no `tokenizer`.
/// Throws Failure(data).
DocumentRule document_rule(const spec::Data& data, std::int64_t vocab_size, const Tokenizer* tokenizer = nullptr);

}  // namespace llmc
