// Documents inside samples: their borders, targets that are masked, and counts of them on ranks.
#include "data/documents.h"

#include <gtest/gtest.h>

#include "data/loader.h"
#include "files.h"

namespace llmc {
namespace {

using test::Folder;
using Rows = std::vector<std::int32_t>;

constexpr std::int64_t kSampleLength = 8;

TEST(Documents, EndWithTheSeparatorAndTheSequence) {
  MicroBatch batch;
  batch.inputs = {5, 9, 9, 6, 7, 8, 9, 4, /**/ 1, 2, 3, 4, 5, 6, 7, 8, /**/ 1, 2, 3, 4, 5, 6, 7, 9};
  index_documents(batch, kSampleLength, {9, false});
  EXPECT_EQ(batch.document_begin,
            (Rows{0, 0, 2, 3, 3, 3, 3, 7, /**/ 0, 0, 0, 0, 0, 0, 0, 0, /**/ 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.document_end,
            (Rows{1, 1, 2, 6, 6, 6, 6, 7, /**/ 7, 7, 7, 7, 7, 7, 7, 7, /**/ 7, 7, 7, 7, 7, 7, 7, 7}));
  index_documents(batch, kSampleLength, {});
  EXPECT_EQ(batch.document_begin, Rows(24, 0)) << "without a separator a sequence is one document";
  EXPECT_EQ(batch.document_end, Rows(24, 7));
}

TEST(Documents, MaskTheirFirstTargets) {
  const Rows inputs = {9, 1, 9, 9, 2};
  Rows targets = {1, 9, 9, 2, 9};
  mask_first_targets(inputs, targets, {9, false});
  EXPECT_EQ(targets, (Rows{1, 9, 9, 2, 9}));
  mask_first_targets(inputs, targets, {9, true});
  EXPECT_EQ(targets, (Rows{-1, 9, -1, -1, 9}));
}

class DocumentsOfShards : public testing::Test {
 protected:
  DocumentsOfShards() {
    Rows tokens;
    for (int i = 0; i < 40 * kSampleLength + 1; ++i) tokens.push_back(i * i % 7 == 2 ? 9 : i % 9);
    folder_.write("s-0.bin", test::llmc_shard(tokens));
    shards_ = std::make_shared<TokenShards>(folder_ / "s-*.bin", "auto", 50, "");
  }
  Folder folder_;
  std::shared_ptr<const TokenShards> shards_;
};

TEST_F(DocumentsOfShards, EveryRankCountsTheTargetsOfAll) {
  const Sources sources = test::one_source(shards_);
  Loader plain(sources, 5, kSampleLength, 2, 12, {});
  for (const int ranks : {1, 2, 3, 6}) {
    std::vector<std::unique_ptr<Loader>> loaders;
    for (int rank = 0; rank < ranks; ++rank)
      loaders.push_back(std::make_unique<Loader>(sources, 5, kSampleLength, 2, 12, DataPosition{},
                                                 RankShare{{rank, ranks}, false}, DocumentRule{9, true}));
    for (int step = 0; step < 6; ++step) {  // of 3.3 steps an epoch: also samples whose targets were trained on
      std::int64_t targets = 0;
      std::vector<StepBatch> batches;
      for (const auto& loader : loaders) batches.push_back(loader->next());
      for (const StepBatch& batch : batches)
        for (const MicroBatch& micro : batch.micro_batches) {
          targets += micro.target_count;
          for (std::size_t i = 0; i < micro.inputs.size(); ++i)
            ASSERT_TRUE(micro.inputs[i] != 9 || micro.targets[i] == -1);
          ASSERT_EQ(micro.document_begin.size(), micro.inputs.size());
        }
      for (const StepBatch& batch : batches) {
        EXPECT_EQ(batch.target_count, targets) << ranks << " ranks";
        EXPECT_EQ(batch.sample_ids, batches[0].sample_ids);
        EXPECT_EQ(batch.end, batches[0].end);
      }
      if (ranks == 1) {
        const StepBatch all = plain.next();
        EXPECT_EQ(batches[0].sample_ids, all.sample_ids) << "the rule changes no order";
        EXPECT_LT(targets, all.target_count);
        EXPECT_TRUE(all.micro_batches[0].document_begin.empty());
      }
    }
  }
}

TEST_F(DocumentsOfShards, EvaluationMasksAsTrainingDoes) {
  const auto batches = evaluation_batches(shards_, kSampleLength, 4, 6, {9, true}).own;
  std::int64_t targets = 0, ends = 0;
  for (const MicroBatch& batch : batches) {
    targets += batch.target_count;
    for (const std::int32_t token : batch.inputs) ends += token == 9;
    EXPECT_EQ(batch.document_end.size(), batch.inputs.size());
  }
  EXPECT_GT(ends, 0);
  EXPECT_EQ(targets, 6 * kSampleLength - ends);
}

TEST_F(DocumentsOfShards, AStepWithoutTargetsIsRefused) {
  folder_.write("ends.bin", test::llmc_shard(Rows(4 * kSampleLength + 1, 9)));
  const Sources sources = test::one_source(std::make_shared<TokenShards>(folder_ / "ends.bin", "auto", 50, ""));
  Loader loader(sources, 5, kSampleLength, 2, 2, {}, {}, {9, true});
  EXPECT_FAILS_WITH(loader.next(), "no targets", "data.documents.separator");
}

TEST(IndexedSeparator, IsTheLastTokenOfAllDocuments) {
  Folder folder;
  const auto separator = [&](const Rows& tokens, const std::vector<std::int32_t>& lengths) {
    const std::vector<std::uint16_t> narrow(tokens.begin(), tokens.end());
    folder.write("m.bin", {reinterpret_cast<const char*>(narrow.data()), 2 * narrow.size()});
    folder.write("m.idx", test::megatron_index(8, 2, lengths));
    return TokenShards(folder / "m.bin", "auto", 0, "").indexed_separator();
  };
  EXPECT_EQ(separator({1, 2, 9, 9, 4, 9}, {3, 1, 0, 2}), 9) << "an empty document has no end";
  EXPECT_EQ(separator({1, 2, 9, 9, 4, 8}, {3, 1, 2}), -1);
  EXPECT_EQ(separator({1, 2, 9}, {3}), -1) << "a single document";
  EXPECT_EQ(separator({1, 2, 9, 9, 4, 8}, {3, 1, 0, 2}), -1);
  folder.write("l.bin", test::llmc_shard(test::counting(20, 10)));
  EXPECT_EQ(TokenShards(folder / "l.bin", "auto", 0, "").indexed_separator(), -1);
}

}  // namespace
}  // namespace llmc
