// The table of keys, in the order of the manual.
#include "spec/schema/rows.h"
#include "spec/schema/schema.h"

namespace llmc::spec {

namespace {

std::vector<Key> rows() {
  std::vector<Key> list;
  for (const auto& part : {model_rows(), training_rows(), surrounding_rows()})
    for (const KeyRow& row : part) list.push_back(row.key);
  return list;
}

std::vector<KeyGroup> group_rows() {
  return {
      {"model", "The model, under the names of Hugging Face's config.json.", "", false},
      {"model.rope_scaling", "Scaling of the rotary frequencies: none, or a map.", "type", false},
      {"loss", "Terms of the training loss other than the cross-entropy.", "", false},
      {"init", "Initial weights: normal random numbers, or the weights of a folder.", "", false},
      {"precision", "Dtypes and arithmetic.", "", false},
      {"precision.fp8", "Extent and arithmetic of fp8 products.", "", false},
      {"batch", "Number of tokens in a step and in a forward and backward pass.", "", false},
      {"memory", "The memory budget, and what is recomputed or chunked to fit it.", "", false},
      {"optimizer", "The update of weights, and gradient clipping.", "", false},
      {"optimizer.rate_scale", "Learning rates of parts of the model, as multiples of lr. 0: not trained.", "", false},
      {"optimizer.weight_decay_of", "Weight decay of parts of the model.", "", false},
      {"optimizer.betas_of", "Betas of parts of the model.", "", false},
      {"optimizer.muon", "Muon's momentum, its orthogonalisation and its scale.", "", false},
      {"schedule", "The learning rate and the weight decay over the steps.", "", false},
      {"data", "Token shards and the tokenizer. Paths are relative to the spec.", "", false},
      {"data.documents", "Borders between the documents of a sample.", "", false},
      {"data.train", "Training data: a list of one source, or a map of names, which is a mixture.", "", true},
      {"data.validation", "Held-out data: a list of one source, or a map of names with a path each.", "", true},
      {"evaluation", "Loss on held-out data while training.", "", false},
      {"evaluation.tasks", "Multiple-choice tasks: a map of names with a file each.", "", false},
      {"audit", "The loss, recomputed in fp32 and compared.", "", false},
      {"sampling", "Text that the model writes while training.", "", false},
      {"checkpoint", "When checkpoints are written, and which are kept.", "", false},
      {"metrics", "Content of metrics.jsonl.", "", false},
      {"guards", "Skipped updates, and when they end a run.", "", false},
      {"parallel", "Several processes that train one model together.", "", false},
      {"target", "The device that the trainer is compiled for.", "", false},
  };
}

}  // namespace

const Schema& spec_schema() {
  static const Schema schema(rows(), group_rows());
  return schema;
}

}  // namespace llmc::spec
