// Checks what the host of a trainer writes: tables of RoPE against the runtime's, and inputs against the tokens.
#include "compiler/tools/float64/host_values.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "compiler/plan/rope.h"
#include "data/documents.h"
#include "program/chunks.h"
#include "small_spec.h"
#include "step/constants.h"

namespace llmc::float64 {
namespace {

using namespace graph;

/// Says whether the host's values of a use are good for these tokens of two sequences of six.
class Host {
 public:
  explicit Host(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"batch.sequence_length=6", "batch.tokens=12", "batch.micro_batch=2",
                                      "memory.loss_chunk=12", "data.documents.separator=0"};
    words.insert(words.end(), more.begin(), more.end());
    plan_ = plan::make_plan(small_spec(words).spec);
  }

  template <class T>
  bool good(Use use, std::vector<T> values) {
    const TensorId id = plan_.graph.host(use);
    const Tensor& t = plan_.graph.at(id);
    OpValue found;
    std::vector<double> elements;
    if constexpr (std::is_arithmetic_v<T>) {
      elements.assign(values.begin(), values.end());
      EXPECT_EQ(static_cast<std::int64_t>(elements.size()), t.rows * t.cols);
      found.matrix = {elements.data(), t.rows, t.cols, t.cols};
    } else {
      found.records = std::as_writable_bytes(std::span(values));
    }
    for (const ScheduledOp& launch : scheduled_ops(plan_, 1)) {
      if (!plan_.graph.regions[launch.region].trains()) continue;
      const std::optional<Worst> worst = host_.check(launch, id, found);
      return !worst || worst->of_bound <= 1;
    }
    return false;
  }
  std::vector<ParameterInfo> parameters() const {
    std::vector<ParameterInfo> all;
    for (const plan::Slice& s : plan_.parameters.slices) {
      ParameterInfo info = {};
      info.name = s.name.c_str(), info.offset = s.offset, info.rows = s.rows, info.cols = s.cols, info.pitch = s.pitch;
      info.group = s.group, info.init_std = static_cast<float>(s.init_std);
      info.init_value = static_cast<float>(s.init_value);
      all.push_back(info);
    }
    return all;
  }
  ChunkTable chunks() const {
    return make_chunks(parameters(), plan_.parameters.chunk_elements, Shares(plan_.parameters.buckets));
  }

  /// The same with one element changed.
  template <class T>
  bool good(Use use, std::vector<T> values, std::size_t at, T other) {
    values.at(at) = other;
    return good(use, values);
  }

 private:
  plan::Plan plan_;
  HostValues host_{plan_};
};

MicroBatch batch() {
  MicroBatch b;
  b.inputs = {5, 3, 0, 3, 7, 5, 0, 9, 9, 0, 4, 5};
  b.targets = {3, 0, 3, 7, 5, 8, 9, 9, 0, 4, 5, 60};
  std::vector<std::int32_t> counts;
  index_tokens(b, counts);
  return b;
}

TEST(HostValues, TargetsAreTheNextTokens) {
  const MicroBatch b = batch();
  Host host;
  EXPECT_TRUE(host.good(Use::tokens, b.inputs));
  EXPECT_TRUE(host.good(Use::targets, b.targets));
  EXPECT_TRUE(host.good(Use::targets, b.targets, 5, 1)) << "the token after the sequence";
  EXPECT_FALSE(host.good(Use::targets, b.inputs)) << "not shifted";
  EXPECT_FALSE(host.good(Use::targets, b.targets, 2, -1)) << "only masked where the spec says so";
}

TEST(HostValues, TargetsAfterASeparatorAreMaskedWhereTheSpecSaysSo) {
  const MicroBatch b = batch();
  std::vector<std::int32_t> targets = b.targets;
  for (const std::size_t at : {2, 6, 9}) targets[at] = -1;
  Host host({"data.documents.mask_first=true"});
  EXPECT_TRUE(host.good(Use::tokens, b.inputs));
  EXPECT_TRUE(host.good(Use::targets, targets));
  EXPECT_FALSE(host.good(Use::targets, b.targets));
  EXPECT_FALSE(host.good(Use::targets, targets, 3, -1));
}

TEST(HostValues, BordersOfDocuments) {
  MicroBatch b = batch();
  index_documents(b, 6, {0});
  Host host({"data.documents.mask=true"});
  EXPECT_TRUE(host.good(Use::tokens, b.inputs));
  EXPECT_TRUE(host.good(Use::document_begin, b.document_begin));
  EXPECT_TRUE(host.good(Use::document_end, b.document_end));
  EXPECT_FALSE(host.good(Use::document_begin, b.document_begin, 3, 2)) << "with the separator of the one before";
  EXPECT_FALSE(host.good(Use::document_begin, b.document_begin, 6, 3)) << "over the end of a sequence";
  EXPECT_FALSE(host.good(Use::document_end, b.document_end, 1, 1));
}

TEST(HostValues, OrderOfTokens) {
  const MicroBatch b = batch();
  Host host;
  EXPECT_TRUE(host.good(Use::tokens, b.inputs));
  EXPECT_TRUE(host.good(Use::embedding_order, b.order));
  EXPECT_TRUE(host.good(Use::run_begin, b.run_begin));
  EXPECT_TRUE(host.good(Use::run_token, b.run_token));
  EXPECT_TRUE(host.good(Use::run_count, std::vector{b.run_count}));
  EXPECT_FALSE(host.good(Use::embedding_order, b.order, 0, b.order[1]));
  EXPECT_FALSE(host.good(Use::run_begin, b.run_begin, 1, 2));
  EXPECT_FALSE(host.good(Use::run_token, b.run_token, 1, 4));
  EXPECT_FALSE(host.good(Use::run_count, std::vector{b.run_count - 1}));
}

TEST(HostValues, TablesOfParameters) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"optimizer.kind=muon", "init.linear=0.03"}, {"init.zero=[o_proj]"}}) {
    Host host(words);
    const ChunkTable table = host.chunks();
    EXPECT_TRUE(host.good(Use::chunks, table.chunks));
    EXPECT_TRUE(host.good(Use::first_chunk, table.first_chunk));
    EXPECT_FALSE(host.good(Use::first_chunk, table.first_chunk, 3, 4));
    const auto with = [&](auto change) {
      std::vector<Chunk> chunks = table.chunks;
      change(chunks[5]);
      return chunks;
    };
    EXPECT_FALSE(host.good(Use::chunks, with([](Chunk& c) { --c.length; })));
    EXPECT_FALSE(host.good(Use::chunks, with([](Chunk& c) { ++c.offset; })));
    EXPECT_FALSE(host.good(Use::chunks, with([](Chunk& c) { ++c.state; })));
    EXPECT_FALSE(host.good(Use::chunks, with([](Chunk& c) { ++c.group; })));
    std::vector<Chunk> more = table.chunks;
    more.push_back(more.back());
    EXPECT_FALSE(host.good(Use::chunks, more));
    const std::vector<InitRule> rules = init_rules(host.parameters());
    EXPECT_TRUE(host.good(Use::init_rules, rules));
    for (std::size_t i = 0; i < rules.size(); ++i) {
      InitRule other = rules[i];
      other.std = other.std == 0 ? 1 : other.std * 1.001f;
      EXPECT_FALSE(host.good(Use::init_rules, rules, i, other)) << i;
      other = rules[i];
      other.value = 1 - other.value;
      EXPECT_FALSE(host.good(Use::init_rules, rules, i, other)) << i;
    }
  }
}

TEST(HostValues, TablesOfRope) {
  const char* const kYarn =
      "model.rope_scaling={type: yarn, factor: 4, original_max_position_embeddings: 64, beta_fast: 4, beta_slow: 0.5}";
  const char* const kLlama3 =
      "model.rope_scaling={type: llama3, factor: 4, original_max_position_embeddings: 20, high_freq_factor: 3}";
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"model.rope_scaling={type: linear, factor: 4}"},
      {kLlama3},
      {kYarn},
      {kYarn, "model.rope_interleaved=true", "model.partial_rotary_factor=0.8"},
      {"model.sliding_window=3", "model.layer_types=[sliding_attention, full_attention]", "model.rope_local_theta=300",
       "model.rope_scaling={type: linear, factor: 4}"}};
  for (const std::vector<std::string>& words : cases) {
    Host host(words);
    const spec::Model model = small_spec(words).spec.model;
    const auto table = [&](const std::vector<double>& frequencies, double scale) {
      return rope_table(6, frequencies, scale, model.rope_interleaved);
    };
    const std::vector<double> frequencies = plan::inverse_frequencies(model);
    const double scale = plan::rope_table_scale(model);
    EXPECT_TRUE(host.good(Use::rope_table, table(frequencies, scale))) << testing::PrintToString(words);
    EXPECT_FALSE(host.good(Use::rope_table, table(frequencies, scale * 1.001)));
    for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
      std::vector<double> other = frequencies;
      other[pair] *= 1.01;
      EXPECT_FALSE(host.good(Use::rope_table, table(other, scale))) << pair;
    }
    if (!model.rope_local_theta) continue;
    EXPECT_TRUE(host.good(Use::local_rope_table, table(plan::local_inverse_frequencies(model), 1)));
    EXPECT_FALSE(host.good(Use::local_rope_table, table(frequencies, scale)));
  }
}

}  // namespace
}  // namespace llmc::float64
