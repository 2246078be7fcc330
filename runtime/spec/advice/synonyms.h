// What other frameworks call llmc's keys and words: Hugging Face's TrainingArguments and configurations, torchtitan,
// nanoGPT, Megatron-LM.
#pragma once

#include <string>
#include <vector>

namespace llmc::spec {

/// A key of another framework, by its own name or with the section it stands in there ("optimizer.name"). `key`:
/// llmc's, or empty where there is none; `note`: what differs, or what to do instead.
struct KeySynonym {
  const char *word, *key, *note;
};

/// A word of another framework in place of one of llmc's.
struct WordSynonym {
  const char *key, *word, *ours;
};

const std::vector<KeySynonym>& key_synonyms();
const std::vector<WordSynonym>& word_synonyms();

/// In lower case, with underscores for hyphens, without hyphens in front: "--Micro-Batch" is micro_batch.
std::string plain_word(const std::string& word);

/// What to say to somebody who wrote `path` as a key, such as "training.seq_len": of the whole, else of its last word;
/// empty for a word of nobody.
std::string advice_for_key(const std::string& path);

/// llmc's word for `word` as a value of `key`; empty if it is no synonym.
std::string our_word(const std::string& key, const std::string& word);

}  // namespace llmc::spec
