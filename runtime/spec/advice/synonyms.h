// Other frameworks' names for llmc's keys and values: Hugging Face's TrainingArguments and configurations, torchtitan,
// nanoGPT, Megatron-LM.
#pragma once

#include <string>
#include <vector>

namespace llmc::spec {

/// A key of another framework, alone or with its section ("optimizer.name"). `key`: llmc's, or empty if there is none;
/// `note`: the difference, or the alternative.
struct KeySynonym {
  const char *word, *key, *note;
};

/// A value of another framework that corresponds to one of llmc's.
struct WordSynonym {
  const char *key, *word, *ours;
};

const std::vector<KeySynonym>& key_synonyms();
const std::vector<WordSynonym>& word_synonyms();

/// Lower case, underscores for hyphens, leading hyphens removed: "--Micro-Batch" becomes micro_batch.
std::string plain_word(const std::string& word);

/// The synonym that a key written as `path` is, such as "training.seq_len": of the whole, else of its last component;
/// null if no framework uses it.
const KeySynonym* synonym_of(const std::string& path);

/// Advice for a key written as `path`, by its synonym; empty without one.
std::string advice_for_key(const std::string& path);

/// llmc's value for `word` as a value of `key`; empty if it is no synonym.
std::string our_word(const std::string& key, const std::string& word);

}  // namespace llmc::spec
