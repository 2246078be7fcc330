// Prints the table of keys: JSON Schema for editors, the page keys.md, and an initial spec.
#pragma once

#include <string>

#include "spec/schema/schema.h"

namespace llmc::spec {

/// JSON Schema, draft-07, of a spec as YAML or JSON.
std::string json_schema(const Schema& schema = spec_schema());

/// docs page in Markdown: every key with type, default, bounds, unit and whether it is compiled in.
std::string reference_markdown(const Schema& schema = spec_schema());

/// The data set of a new spec, and where the weights of its model are.
struct NewData {
  std::string folder = "data/my-run";  // from the folder of the spec
  std::string command;                 // makes it; empty: its shards come from elsewhere
  std::string tokenizer = {};          // where no command makes one: a tokenizer.json, from the folder of the spec
  std::string weights = {};            // init.from, from the folder of the spec; empty: weights are random
  std::string unread_weights = {};     // a file of weights that init.from does not read, where there is no other
  std::string config = "config.json";  // name of the file that the model is read from, for errors
  std::string made_tokenizer = "tokenizer.model";  // file of the tokenizer in `folder`, if a command makes it
};

/// A path as YAML: in quotes where one of its characters may need them.
std::string yaml_path(const std::string& path);

/// The data section of a new spec, with the command as a comment above it.
std::string data_section(const NewData& data);

/// Returns the spec that `llmc init` writes: small, commented, accepted by `llmc check`.
std::string sample_spec(const std::string& name, const NewData& data);

}  // namespace llmc::spec
