// A small corpus, and options to build a data set from it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/tools/dataset/builder.h"
#include "data/shards.h"
#include "data/tokenizer.h"
#include "files.h"
#include "source_text.h"

namespace llmc::data {

class BuildDatasetTest : public testing::Test {
 protected:
  BuildDatasetTest() {
    for (unsigned i = 0; i < 40; ++i) texts_.insert(test::source_text(i, 4));
    unsigned i = 0;
    for (const std::string& text : texts_) corpus_.write("f" + std::to_string(i++) + ".py", text);
    options_.from = {corpus_.path};
    options_.vocab_size = 500;
    options_.out = out_.path / "data";
    options_.force = true;
    options_.threads = 2;
  }
  /// Documents of a side, decoded from its shards.
  std::vector<std::string> documents(const std::string& side) const {
    const Tokenizer tokenizer(options_.out / "tokenizer.model");
    const TokenShards shards((options_.out / (side + "-*.bin")).string(), "auto", tokenizer.vocab_size(), "");
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < shards.shards().size(); ++i) {
      std::vector<std::int32_t> part(static_cast<std::size_t>(shards.shards()[i].layout.tokens));
      shards.read(i, 0, part);
      tokens.insert(tokens.end(), part.begin(), part.end());
    }
    std::vector<std::string> texts;
    std::size_t begin = 0;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      if (tokens[t] != tokenizer.separator_id()) continue;
      texts.push_back(tokenizer.decode(std::span(tokens).subspan(begin, t - begin)));
      begin = t + 1;
    }
    EXPECT_EQ(begin, tokens.size()) << "every document ends with the separator";
    return texts;
  }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(out_.path))
      if (entry.is_regular_file())
        found[std::filesystem::relative(entry.path(), out_.path).string()] =
            out_.read(std::filesystem::relative(entry.path(), out_.path).string());
    return found;
  }
  test::Folder corpus_, out_;
  std::set<std::string> texts_;
  DatasetOptions options_;
};

}  // namespace llmc::data
