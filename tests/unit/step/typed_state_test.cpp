// State of other types than fp32, of blocks, and of some parameters alone: shared out, saved, loaded by another number
// of ranks, compared.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "../checkpoint/small_state.h"
#include "../facts.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/save.h"
#include "checkpoint/snapshot.h"
#include "comm/collectives.h"
#include "comm/rendezvous.h"
#include "program/chunks.h"
#include "step/device_state.h"
#include "step/replicas.h"

namespace llmc {
namespace {

/// Where the ranks, threads of this process, show each other what they gather.
struct Meeting {
  explicit Meeting(int ranks) : everyone(ranks), shown(static_cast<std::size_t>(ranks)), texts(shown.size()) {}
  std::barrier<> everyone;
  std::vector<const void*> shown;
  std::vector<std::string> texts;
};

Meeting* meeting = nullptr;

}  // namespace

struct Communicator::Impl {
  int rank, ranks;
};
Communicator::Communicator(Device&, const LauncherInfo& launch, Rendezvous&, const CollectiveNeeds&)
    : impl_(new Impl{launch.rank, launch.world_size}) {}
Communicator::~Communicator() = default;
int Communicator::rank() const { return impl_->rank; }
int Communicator::world_size() const { return impl_->ranks; }
// Of class Session, which no test here has.
CollectiveLog* Communicator::collectives() const { return nullptr; }
std::byte* Communicator::allocate(Device& device, std::size_t bytes) { return device.allocate(bytes); }
void Communicator::all_reduce_sum(double*, std::size_t, Stream&) {}

void Communicator::all_gather(const void* mine, void* data, std::size_t share, Stream&) {
  meeting->shown[static_cast<std::size_t>(impl_->rank)] = mine;
  meeting->everyone.arrive_and_wait();
  std::vector<std::vector<std::byte>> all;
  for (const void* other : meeting->shown)
    all.emplace_back(static_cast<const std::byte*>(other), static_cast<const std::byte*>(other) + share);
  meeting->everyone.arrive_and_wait();
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    std::memcpy(static_cast<std::byte*>(data) + rank * share, all[rank].data(), share);
}

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlock = 64;

/// The bf16 and its scales are of group 0, whose matrices are the last two buckets; fp32 of both others.
const std::vector<ParameterInfo>& parameters() {
  const auto make = [](const char* name, std::int64_t offset, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                       int group) { return ParameterInfo{name, offset, rows, cols, pitch, rows > 1, group, 0, 0, 1}; };
  constexpr std::int64_t kGap = share_gap(kBlock);
  static const std::vector<ParameterInfo> list = {
      make("model.embed_tokens.weight", 192 + kGap, 11, 6, 8, 2),
      make("model.layers.0.input_layernorm.weight", 0, 1, 70, 70, 1),
      make("model.layers.0.self_attn.q_proj.weight", 320 + 2 * kGap, 40, 24, 24, 0),
      make("model.layers.0.mlp.down_proj.weight", 1280 + 2 * kGap, 10, 33, 33, 0),
      make("model.layers.1.self_attn.q_proj.weight", 1664 + 3 * kGap, 40, 24, 24, 0),
      make("model.norm.weight", 128, 1, 64, 64, 1)};
  return list;
}

constexpr Bucket kBuckets[] = {
    {0, 192}, {192 + share_gap(kBlock), 128}, {320 + 2 * share_gap(kBlock), 1344}, {1664 + 3 * share_gap(kBlock), 960}};
constexpr std::int64_t kElementsOfAll = 2624 + 4 * share_gap(kBlock);

/// As the plan places them: what is shared out comes last.
struct Arena {
  std::vector<Buffer> buffers;
  ProgramInfo info{};

  explicit Arena(Shard shard) {
    struct Wanted {
      const char* name;
      DType dtype;
      Use use;
      std::int64_t block = 1;
      GroupSet groups = kAllGroups;
    };
    const Wanted wanted[] = {{"masters", DType::f32, Use::masters},
                             {"gradients", DType::f32, Use::gradients},
                             {"exp_avg", DType::f32, Use::state, 1, 0b110},
                             {"momentum", DType::bf16, Use::state, 1, 0b001},
                             {"momentum_scale", DType::f32, Use::state, kBlock, 0b001},
                             {"momentum_code", DType::byte, Use::state, 1, 0b001}};
    std::size_t at = 0;
    for (const bool sharded : {false, true})
      for (const Wanted& w : wanted) {
        if (is_sharded(w.use, shard) != sharded) continue;
        const BucketRange range = buckets_of(kBuckets, parameters(), w.groups);
        const std::int64_t past = range.past == std::size(kBuckets) ? kElementsOfAll : kBuckets[range.past].offset;
        const std::int64_t elements = in_blocks(past - kBuckets[range.first].offset, w.block);
        buffers.push_back({w.name, w.dtype, elements, w.use, at, w.block, w.groups});
        at += buffer_space(w.dtype, elements);
      }
    info.parameters = parameters();
    info.parameter_elements = kElementsOfAll;
    info.buffers = buffers;
    info.buckets = kBuckets;
    info.share_unit = kBlock;
    info.shard = shard;
    info.arena_bytes = at;
    if (is_sharded(Use::gradients, shard))
      info.window_bytes = info.gradient_window_bytes =
          window_space(DType::f32, 192, kBlock) + window_space(DType::f32, 1344, kBlock);
  }
};

/// Runs `work` as each of so many ranks, at once.
struct Rank {
  const Arena& arena;
  WorldRank self;
  StateAccess& state;
  std::span<const std::byte> memory;
  const ArenaOffsets& offsets;
};

void as_ranks(Shard shard, int ranks, const std::function<void(const Rank&)>& work) {
  Meeting all(ranks);
  meeting = &all;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const Arena arena(shard);
      LauncherInfo launch;
      Rendezvous nobody(launch, {});
      launch.rank = rank, launch.world_size = ranks;
      Device device(0, 1);
      Communicator communicator(device, launch, nobody);
      const Shares shares = shard == Shard::none ? Shares(kBuckets) : Shares(kBuckets, DataRank{rank, ranks}, kBlock);
      const ArenaOffsets offsets(arena.info, shares, ranks);
      std::byte* memory = device.allocate(offsets.bytes());
      FlatBuffers flat(device, communicator, memory, arena.info, shares, offsets);
      DeviceState state(arena.info, flat, buffer_of(arena.buffers, Use::masters), [] {});
      work({arena, {rank, ranks}, state, {memory, offsets.bytes()}, offsets});
    });
  for (std::thread& thread : threads) thread.join();
}

/// Every byte of an element tells which it is.
std::byte byte_of(std::size_t buffer, std::int64_t element, std::size_t byte) {
  return static_cast<std::byte>(
      (buffer * 89 + static_cast<std::size_t>(element) * 31 + byte * 7 + static_cast<std::size_t>(element >> 5)) &
      0x3f);  // no exponent of these is that of a number that is not finite
}

void fill(StateAccess& state) {
  for (std::size_t b = 0; b < state.buffers().size(); ++b)
    for (const ParameterInfo& p : parameters()) {
      const SavedBuffer& buffer = state.buffers()[b];
      if (!buffer.covers(p)) continue;
      const ParameterInfo own = parameter_in(buffer, p);
      const auto size = static_cast<std::size_t>(bytes_of(buffer.dtype, 1));
      std::vector<std::byte> bytes(static_cast<std::size_t>(flat_elements(own)) * size);
      for (std::int64_t i = 0; i < flat_elements(own); ++i)
        if (i % own.pitch < own.cols)
          for (std::size_t k = 0; k < size; ++k)
            bytes[static_cast<std::size_t>(i) * size + k] = byte_of(b, own.offset + i, k);
      state.write(b, own.offset, flat_elements(own), bytes.data());
    }
}

SaveOptions options_of(const Rank& rank) {
  SaveOptions options;
  options.shard_bytes = 5000;
  options.savers = {rank.self, [self = rank.self](const std::string& mine) {
                      meeting->texts[static_cast<std::size_t>(self.index)] = mine;
                      meeting->everyone.arrive_and_wait();
                      std::vector<std::string> all = meeting->texts;
                      meeting->everyone.arrive_and_wait();
                      return all;
                    }};
  return options;
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = read_all(entry.path());
  return files;
}

const fs::path kStep7 = fs::path("checkpoints") / "step-00000007";

/// Of the state that fill() writes, saved by one rank.
std::map<std::string, std::string> saved_alone(const fs::path& run) {
  as_ranks(Shard::none, 1, [&](const Rank& rank) {
    fill(rank.state);
    save_checkpoint(run, small_train_state(7), kTexts, parameters(), rank.state, options_of(rank));
  });
  return files_of(run / kStep7);
}

constexpr Shard kShards[] = {Shard::none, Shard::optimizer, Shard::gradients, Shard::parameters};

TEST(TypedState, FilesHoldEachTensorInItsTypeOnceForEachOfItsParameters) {
  test::Folder run;
  saved_alone(run.path);
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::directory_iterator(run.path / kStep7)) {
    if (!entry.path().filename().string().starts_with("optimizer")) continue;
    const safetensors::Reader reader(entry.path());
    for (const safetensors::Entry& tensor : reader.entries()) {
      std::string& text = found[tensor.name] = safetensors::dtype_name(tensor.dtype);
      for (const std::int64_t extent : tensor.shape) text += " " + std::to_string(extent);
    }
  }
  const std::map<std::string, std::string> expected = {
      {"exp_avg.model.embed_tokens.weight", "F32 11 6"},
      {"exp_avg.model.layers.0.input_layernorm.weight", "F32 70"},
      {"exp_avg.model.norm.weight", "F32 64"},
      {"momentum.model.layers.0.self_attn.q_proj.weight", "BF16 40 24"},
      {"momentum.model.layers.0.mlp.down_proj.weight", "BF16 10 33"},
      {"momentum.model.layers.1.self_attn.q_proj.weight", "BF16 40 24"},
      {"momentum_scale.model.layers.0.self_attn.q_proj.weight", "F32 15"},  // 960 elements
      {"momentum_scale.model.layers.0.mlp.down_proj.weight", "F32 6"},      // 330
      {"momentum_scale.model.layers.1.self_attn.q_proj.weight", "F32 15"},
      {"momentum_code.model.layers.0.self_attn.q_proj.weight", "U8 40 24"},
      {"momentum_code.model.layers.0.mlp.down_proj.weight", "U8 10 33"},
      {"momentum_code.model.layers.1.self_attn.q_proj.weight", "U8 40 24"}};
  EXPECT_EQ(found, expected);
}

TEST(TypedState, AnyNumberOfRanksSavesTheSameBytesAndGoesOnFromThem) {
  test::Folder alone;
  const auto files = saved_alone(alone.path);
  for (const Shard shard : kShards)
    for (int ranks = 1; ranks <= 4; ++ranks) {
      test::Folder direct, later;
      as_ranks(shard, ranks, [&](const Rank& rank) {
        fill(rank.state);
        save_checkpoint(direct.path, small_train_state(7), kTexts, parameters(), rank.state, options_of(rank));
      });
      EXPECT_EQ(files_of(direct.path / kStep7), files) << ranks << " ranks, shard " << static_cast<int>(shard);
      const int others = ranks % 4 + 1;
      as_ranks(shard, others, [&](const Rank& rank) {
        load_checkpoint(direct.path / kStep7, parameters(), rank.state, Trust::unverified);
        save_checkpoint(later.path, small_train_state(7), kTexts, parameters(), rank.state, options_of(rank));
      });
      EXPECT_EQ(files_of(later.path / kStep7), files) << others << " after " << ranks;
    }
}

TEST(TypedState, SnapshotsHoldTheSameBytes) {
  test::Folder alone;
  const auto files = saved_alone(alone.path);
  for (const Shard shard : kShards) {
    test::Folder run;
    as_ranks(shard, 3, [&](const Rank& rank) {
      fill(rank.state);
      const SaveOptions options = options_of(rank);
      const auto buffers = rank.state.buffers();
      std::vector<std::byte> memory(Snapshot::bytes(parameters(), buffers, rank.self, options.shard_bytes));
      Snapshot snapshot(parameters(), buffers, rank.self, options.shard_bytes, memory.data());
      snapshot.take(rank.state);
      CheckpointSave save(run.path, small_train_state(7), kTexts, parameters(), buffers, options);
      save.write(snapshot);
      save.settle();
      save.publish();
      save.finish();
    });
    EXPECT_EQ(files_of(run.path / kStep7), files) << "shard " << static_cast<int>(shard);
  }
}

TEST(TypedState, AShareHasItsPartOfWhatIsKeptAndCutsNoBlock) {
  for (const int ranks : {1, 2, 3, 4})
    as_ranks(Shard::optimizer, ranks, [&](const Rank& rank) {
      const Shares shares(kBuckets, DataRank{rank.self.index, ranks}, kBlock);
      for (const Chunk& chunk : make_chunks(parameters(), 128, shares).chunks) {
        EXPECT_EQ(chunk.offset % kBlock, 0);
        EXPECT_EQ(chunk.state % kBlock, 0);
      }
      const auto place = [&](std::size_t i) { return rank.offsets.of(rank.arena.buffers[i]); };
      // exp_avg: vectors and the embedding; then momentum: two buckets; its scales; its codes; the end.
      const std::int64_t first = shares.begin_of(2), all = shares.state_elements();
      EXPECT_EQ(place(3) - place(2), buffer_space(DType::f32, ranks == 1 ? 192 + share_gap(kBlock) + 128 : first));
      EXPECT_EQ(place(4) - place(3), buffer_space(DType::bf16, all - first));
      EXPECT_EQ(place(5) - place(4), buffer_space(DType::f32, (all - first) / kBlock));
      EXPECT_EQ(rank.offsets.windows() - place(5), buffer_space(DType::byte, all - first));
      EXPECT_EQ((all - first) % kBlock, 0);
    });
}

TEST(TypedState, RanksCompareWhatTheyHaveAlikeByBytes) {
  const Arena arena(Shard::none);
  std::map<std::string, std::size_t> bytes;
  for (const Replica& replica : replicas(arena.info)) bytes[replica.name] = replica.intervals.at(0).bytes;
  const std::int64_t elements = kElementsOfAll - kBuckets[2].offset;
  EXPECT_EQ(bytes.at("momentum"), static_cast<std::size_t>(2 * elements));
  EXPECT_EQ(bytes.at("momentum_scale"), static_cast<std::size_t>(4 * (elements / kBlock)));
  EXPECT_EQ(bytes.at("momentum_code"), static_cast<std::size_t>(elements));
  EXPECT_EQ(bytes.at("exp_avg"), static_cast<std::size_t>(4 * kBuckets[2].offset));
}

TEST(TypedState, AnotherTypeOrAnotherBlockIsRefused) {
  test::Folder run;
  saved_alone(run.path);
  const auto refusal = [&](const std::function<void(SavedBuffer&)>& change) -> std::string {
    std::vector<SavedBuffer> buffers = saved_buffers(Arena(Shard::none).buffers);
    change(buffers[2]);
    change(buffers[3]);
    std::vector<std::vector<std::byte>> memory(buffers.size(), std::vector<std::byte>(4 * kElementsOfAll));
    std::vector<std::byte*> begins;
    for (auto& bytes : memory) begins.push_back(bytes.data());
    HostState state(buffers, begins, kElementsOfAll);
    try {
      load_checkpoint(run.path / kStep7, parameters(), state, Trust::unverified);
      return "";
    } catch (const Failure& failure) {
      return failure.what();
    }
  };
  EXPECT_EQ(refusal([](SavedBuffer&) {}), "");
  const std::string type = refusal([](SavedBuffer& buffer) { buffer.dtype = DType::f32; });
  EXPECT_TRUE(test::has_facts(type, {"BF16", "needs F32"}));
  const std::string block = refusal([](SavedBuffer& buffer) { buffer.block = buffer.block > 1 ? 32 : 1; });
  EXPECT_TRUE(test::has_facts(block, {"[15]", "needs [30]"}));
  const std::string covers = refusal([](SavedBuffer& buffer) { buffer.groups |= 0b100; });
  EXPECT_NE(covers.find("embed_tokens.weight"), std::string::npos) << covers;
}

TEST(TypedState, BlocksOfPaddingOrOfTwoParametersAreALimitation) {
  SavedBuffer buffer{"scale.", DType::f32, kBlock};
  ParameterInfo p = parameters()[0];
  EXPECT_THROW(parameter_in(buffer, p), Failure) << "rows with padding";
  p.pitch = p.cols;
  EXPECT_EQ(parameter_in(buffer, p).cols, 2);
  p.offset += 8;
  EXPECT_THROW(parameter_in(buffer, p), Failure) << "a block of two parameters";
}

}  // namespace
}  // namespace llmc
