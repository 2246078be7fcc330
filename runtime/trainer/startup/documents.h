// Finds the token that ends the documents of a run's data.
#pragma once

#include "data/documents.h"
#include "data/tokenizer.h"
#include "spec/spec.h"

namespace llmc {

/// Rule of data.documents, with paths resolved; it divides nothing without mask and mask_first. The separator is the
/// spec's, else the one by which the training data's .idx files or dataset.json end documents, else that of `tokenizer`
/// (null: none), else -1. Throws Failure(data) if sources of a mixture record different ones.
DocumentRule find_documents(const spec::Data& data, const Tokenizer* tokenizer);

/// Same for training and evaluation, where the separator must be known and be a token of the model. Opens
/// data.tokenizer if it needs it and has no `tokenizer`. Throws Failure(data).
DocumentRule document_rule(const spec::Data& data, std::int64_t vocab_size, const Tokenizer* tokenizer = nullptr);

}  // namespace llmc
