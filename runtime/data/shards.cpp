#include "data/shards.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "data/dataset_record.h"
#include "data/foreign_format.h"
#include "data/glob.h"
#include "data/token_width.h"
#include "error.h"
#include "files/disk.h"
#include "text/plural.h"

namespace llmc {
namespace fs = std::filesystem;

namespace {

/// Calls f with a pointer to the first token, of the shard's own type. Tokens are aligned: mappings start on pages, and
/// every header is a multiple of the largest token.
template <typename F>
auto with_tokens(const TokenShards::Shard& shard, F f) {
  const std::byte* data = shard.file.bytes().data() + shard.layout.begin;
  switch (shard.layout.type) {
    case TokenType::u8: return f(reinterpret_cast<const std::uint8_t*>(data));
    case TokenType::i8: return f(reinterpret_cast<const std::int8_t*>(data));
    case TokenType::u16: return f(reinterpret_cast<const std::uint16_t*>(data));
    case TokenType::i16: return f(reinterpret_cast<const std::int16_t*>(data));
    case TokenType::i32: return f(reinterpret_cast<const std::int32_t*>(data));
    case TokenType::u32: return f(reinterpret_cast<const std::uint32_t*>(data));
    case TokenType::i64: return f(reinterpret_cast<const std::int64_t*>(data));
  }
  throw Failure(Exit::internal, "unknown token type");
}

/// Pages already read should not count as the process's memory.
void release(const TokenShards::Shard& shard, std::int64_t first, std::int64_t count) {
  const auto size = static_cast<std::size_t>(size_of(shard.layout.type));
  shard.file.release(shard.layout.begin + static_cast<std::size_t>(first) * size,
                     static_cast<std::size_t>(count) * size);
}

fs::path with_extension(fs::path path, const char* extension) { return path.replace_extension(extension); }

bool is_megatron(const fs::path& path) {
  const fs::path index = with_extension(path, ".idx");
  return (path.extension() == ".idx" || path.extension() == ".bin") && disk::exists(index, Exit::data) &&
         has_megatron_magic(MappedFile(index).bytes());
}

TokenShards::Shard open_megatron(const fs::path& path) {
  if (path.extension() != ".idx" && path.extension() != ".bin")
    throw Failure(
        Exit::data,
        fmt::format("'{}': Megatron data is a pair of files NAME.idx and NAME.bin. Name one of them", path.string()));
  const MappedFile index(with_extension(path, ".idx"));
  MappedFile tokens(with_extension(path, ".bin"));
  const ShardLayout layout = parse_megatron_index(index.bytes(), tokens.bytes().size(), index.path().string());
  return {std::move(tokens), layout};
}

TokenShards::Shard open_shard(const fs::path& path, const std::string& format) {
  MappedFile file(path);
  const std::string name = path.string();
  if (file.bytes().empty())
    throw Failure(Exit::data, fmt::format("'{}': is empty. Recreate it, or exclude it from the pattern", name));
  if (const std::string foreign = foreign_format(file.bytes()); !foreign.empty())
    throw Failure(Exit::data, fmt::format("'{}': {}", name, foreign));
  if (format == "nanogpt" || format == "nanogpt32") {
    const ShardLayout layout =
        parse_raw_shard(file.bytes(), format == "nanogpt" ? ShardFormat::nanogpt : ShardFormat::nanogpt32, name);
    return {std::move(file), layout};
  }
  if (format == "auto" && !has_llmc_magic(file.bytes())) {
    if (is_megatron(path)) return open_megatron(path);
    throw Failure(
        Exit::data,
        fmt::format("'{}': is neither llm.c's nor Megatron's format. If it is raw tokens, write 'format: nanogpt' for "
                    "uint16 or 'format: nanogpt32' for uint32. If it is text, make shards with 'llmc data build'",
                    name));
  }
  const ShardLayout layout = parse_llmc_shard(file.bytes(), name);
  return {std::move(file), layout};
}

/// A shard with its record, if dataset.json has one.
struct Opened {
  TokenShards::Shard shard;
  std::optional<DatasetRecords::Found> record;
};

Opened open_by_record(const fs::path& path, const std::string& format, DatasetRecords& records) {
  if (format == "megatron") return {open_megatron(path), {}};
  if (format != "auto" && format != "llmc") return {open_shard(path, format), {}};
  MappedFile file(path);
  const auto found = records.find(path, file.bytes().size());
  if (!found) return {open_shard(path, format), {}};
  return {{std::move(file), llmc_layout(found->dataset->wide, found->shard->tokens), found->shard->sampled}, found};
}

/// Fingerprint of the side of a data set whose shards are exactly these, in the order of their names; else empty.
std::string recorded_fingerprint(const std::vector<DatasetRecords::Found>& found) {
  const DatasetRecord& dataset = *found.front().dataset;
  const auto names = [](const auto& shards, auto name) {
    std::vector<std::string> list;
    for (const auto& shard : shards) list.push_back(name(shard));
    return list;
  };
  if (std::ranges::any_of(found, [&](const auto& one) { return one.dataset != &dataset; })) return "";
  const auto there = names(found, [](const DatasetRecords::Found& one) { return one.shard->file; });
  for (const DatasetSide* side : {&dataset.train, &dataset.validation}) {
    auto recorded = names(side->shards, [](const DatasetShard& shard) { return shard.file; });
    std::ranges::sort(recorded);
    const bool sampled = std::ranges::none_of(side->shards, &std::string::empty, &DatasetShard::sampled);
    if (sampled && recorded == there) return side->fingerprint;
  }
  return "";
}

/// A pattern like data/* matches both files of a Megatron pair: keep one.
std::vector<fs::path> without_second_halves(std::vector<fs::path> paths, const std::string& format) {
  if (format != "auto" && format != "megatron") return paths;
  const std::set<fs::path> all(paths.begin(), paths.end());
  std::erase_if(paths, [&](const fs::path& path) {
    return path.extension() == ".idx" && all.contains(with_extension(path, ".bin")) && is_megatron(path);
  });
  return paths;
}

/// Deepest folder that contains all shards.
fs::path common_folder(const std::vector<TokenShards::Shard>& shards) {
  fs::path common = shards.front().file.path().parent_path();
  for (const TokenShards::Shard& shard : shards) {
    const fs::path folder = shard.file.path().parent_path();
    const auto [end, rest] = std::mismatch(common.begin(), common.end(), folder.begin(), folder.end());
    fs::path shared;
    for (auto part = common.begin(); part != end; ++part) shared /= *part;
    common = shared;
  }
  return common;
}

/// Returns whether raw uint16 numbers look like the two halves of uint32 tokens.
bool is_of_halves(const TokenShards::Shard& shard) {
  if (shard.layout.format != ShardFormat::nanogpt) return false;
  const auto* numbers = reinterpret_cast<const std::uint16_t*>(shard.file.bytes().data());
  const bool halves = looks_like_uint32({numbers, static_cast<std::size_t>(shard.layout.tokens)});
  release(shard, 0, shard.layout.tokens);
  return halves;
}

}  // namespace

std::uint64_t scan_max_id(const TokenShards::Shard& shard) {
  constexpr std::int64_t kAtOnce = 1 << 20;
  return with_tokens(shard, [&]<typename T>(const T* tokens) {
    T most = 0, least = 0;
    for (std::int64_t first = 0; first < shard.layout.tokens; first += kAtOnce) {
      const std::int64_t past = std::min(first + kAtOnce, shard.layout.tokens);
      for (std::int64_t i = first; i < past; ++i) {
        most = std::max(most, tokens[i]);
        least = std::min(least, tokens[i]);
      }
      release(shard, first, past - first);
    }
    shard.file.check();
    return least < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(least)) : static_cast<std::uint64_t>(most);
  });
}

namespace {

std::uint64_t max_id_of(const TokenShards::Shard& shard, const MaxIdCache& known) {
  // The identity includes the format, because the same bytes scan differently in another.
  const std::string identity = fmt::format("{}|{}", shard.file.identity(), name_of(shard.layout.format));
  if (const auto max_id = known.find(identity)) return *max_id;
  const std::uint64_t max_id = scan_max_id(shard);
  known.store(identity, max_id);
  return max_id;
}

}  // namespace

TokenShards::TokenShards(const std::string& pattern, const std::string& format, std::int64_t vocab_size,
                         const fs::path& cache)
    : vocab_size_(vocab_size) {
  constexpr std::string_view kFormats[] = {"auto", "llmc", "nanogpt", "nanogpt32", "megatron"};
  if (std::ranges::find(kFormats, format) == std::end(kFormats))
    throw Failure(
        Exit::data,
        fmt::format("unknown format '{}' of '{}'. Write auto, llmc, nanogpt, nanogpt32 or megatron", format, pattern));
  const MaxIdCache known(cache);
  DatasetRecords records;
  std::vector<DatasetRecords::Found> found;
  std::vector<std::string> wider;  // paths of files that look wider
  for (const fs::path& path : without_second_halves(glob_files(pattern), format)) {
    Opened opened = open_by_record(path, format, records);
    shards_.push_back(std::move(opened.shard));
    const Shard& shard = shards_.back();
    shard.file.check();
    if (opened.record) found.push_back(*opened.record);
    if (vocab_size > 0)
      check_ids(shard,
                opened.record ? static_cast<std::uint64_t>(opened.record->shard->max_id) : max_id_of(shard, known));
    if (is_of_halves(shard)) wider.push_back(path.string());
  }
  if (found.size() == shards_.size()) fingerprint_ = recorded_fingerprint(found);
  if (!wider.empty())
    warning_ = fmt::format(
        "'{}'{}: every second uint16 number is 0 or 1, like the upper half of a uint32 token. If the tokens are "
        "uint32, write 'format: nanogpt32'",
        wider.front(), wider.size() > 1 ? fmt::format(" and {} more", wider.size() - 1) : "");
}

void TokenShards::check_ids(const Shard& shard, std::uint64_t max_id) const {
  const auto fail = [&](const std::string& what) {
    throw Failure(Exit::data, fmt::format("'{}': {}", shard.file.path().string(), what));
  };
  if (shard.layout.format == ShardFormat::nanogpt && vocab_size_ > 65536)
    fail(
        fmt::format("is read as uint16 tokens, but vocab_size {} has tokens above 65,535. Write 'format: nanogpt32' if "
                    "the file is uint32, or use the vocabulary that the data was made with",
                    vocab_size_));
  if (max_id >= static_cast<std::uint64_t>(vocab_size_))
    fail(fmt::format(
        "has token {}, but vocab_size is {}. Use the vocabulary that the data was made with{}",
        static_cast<std::int64_t>(max_id), vocab_size_,
        shard.layout.format == ShardFormat::nanogpt32 ? ", or write 'format: nanogpt' if the file is uint16" : ""));
}

std::int32_t TokenShards::indexed_separator() const {
  std::int32_t separator = -1;
  std::size_t documents = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i].layout.format != ShardFormat::megatron) return -1;
    const MappedFile index(with_extension(shards_[i].file.path(), ".idx"));
    parse_megatron_index(index.bytes(), shards_[i].file.bytes().size(), index.path().string());
    for (const std::int64_t end : megatron_document_ends(index.bytes(), 1000)) {
      std::int32_t last = 0;
      read(i, end, {&last, 1});
      if (separator >= 0 && last != separator) return -1;
      separator = last;
      ++documents;
    }
  }
  return documents > 1 ? separator : -1;  // the end of a single one says nothing
}

std::int64_t TokenShards::tokens() const {
  std::int64_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.layout.tokens;
  return sum;
}

std::int64_t TokenShards::samples(std::int64_t sequence_length) const {
  std::int64_t sum = 0;
  for (const Shard& shard : shards_) sum += std::max<std::int64_t>(shard.layout.tokens - 1, 0) / sequence_length;
  return sum;
}

void TokenShards::read(std::size_t shard_index, std::int64_t first, std::span<std::int32_t> out,
                       std::int64_t sample) const {
  const Shard& shard = shards_.at(shard_index);
  const auto length = static_cast<std::int64_t>(out.size());
  if (first < 0 || length > shard.layout.tokens || first > shard.layout.tokens - length)
    throw Failure(Exit::internal,
                  fmt::format("tokens [{}, +{}) are outside of '{}'", first, length, shard.file.path().string()));
  const std::uint64_t limit = vocab_size_ > 0 ? static_cast<std::uint64_t>(vocab_size_)
                                              : std::uint64_t{std::numeric_limits<std::int32_t>::max()};
  const std::uint64_t most = with_tokens(shard, [&](const auto* tokens) {
    std::uint64_t largest = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const auto id = static_cast<std::uint64_t>(static_cast<std::int64_t>(tokens[first + i]));
      largest = std::max(largest, id);
      out[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(id);
    }
    return largest;
  });
  release(shard, first, length);
  if (const std::string damage = shard.file.damage(); !damage.empty())
    throw Failure(
        Exit::data,
        fmt::format("'{}': {} while {} was read (tokens {} to {}). Restore it, and rerun the same command",
                    shard.file.path().string(), damage, sample < 0 ? "a part of it" : fmt::format("sample {}", sample),
                    first, first + length - 1));
  if (most >= limit)
    throw Failure(
        Exit::data,
        fmt::format("'{}': has token {} near token {}, but ids must be below {}. The file changed or is damaged",
                    shard.file.path().string(), static_cast<std::int64_t>(most), first, limit));
}

TokenShards::Identity TokenShards::identify() const {
  // Hashing terabytes at every start would take too long, so sizes, both ends, and blocks in between are sampled.
  constexpr std::size_t kEnd = 64 << 10, kBlock = 4 << 10, kBlocks = 16;
  const fs::path folder = common_folder(shards_);
  Identity identity;
  const auto record = [&](const Shard& shard, std::string xxh3) {
    identity.shards.push_back(
        {shard.file.path().lexically_relative(folder).string(), shard.layout.tokens, std::move(xxh3)});
  };
  if (!fingerprint_.empty()) {
    for (const Shard& shard : shards_) record(shard, shard.sampled);
    identity.fingerprint = fingerprint_;
    return identity;
  }
  XXH64_hash_t all = 0, own = 0;
  const auto add = [&](const void* data, std::size_t bytes) {
    all = XXH3_64bits_withSeed(data, bytes, all);
    own = XXH3_64bits_withSeed(data, bytes, own);
  };
  for (const Shard& shard : shards_) {
    own = 0;
    const std::span<const std::byte> bytes = shard.file.bytes();
    const std::string about =
        fmt::format("{}|{}|{}", name_of(shard.layout.format), name_of(shard.layout.type), shard.layout.tokens);
    add(about.data(), about.size());
    if (bytes.size() <= 2 * kEnd + kBlocks * kBlock) {
      add(bytes.data(), bytes.size());
    } else {
      add(bytes.data(), kEnd);
      for (std::size_t i = 0; i < kBlocks; ++i) add(bytes.data() + (bytes.size() - kBlock) / kBlocks * i, kBlock);
      add(bytes.data() + bytes.size() - kEnd, kEnd);
      shard.file.release(0, bytes.size());
    }
    shard.file.check();
    record(shard, fmt::format("{:016x}", own));
  }
  identity.fingerprint = fmt::format("{:016x}", all);
  return identity;
}

Samples::Samples(std::shared_ptr<const TokenShards> shards, std::int64_t sequence_length)
    : shards_(std::move(shards)), sequence_length_(sequence_length), first_{0} {
  if (sequence_length < 1) throw Failure(Exit::data, "the sequence length must be at least 1");
  for (const TokenShards::Shard& shard : shards_->shards())
    first_.push_back(first_.back() + std::max<std::int64_t>(shard.layout.tokens - 1, 0) / sequence_length);
  if (count() == 0)
    throw Failure(Exit::data, fmt::format("'{}'{} has no sample: it has {} token{} in all, but one sample takes {} of "
                                          "one file. Give more data or a shorter sequence_length",
                                          shards_->shards().front().file.path().string(),
                                          shards_->shards().size() > 1 ? " and the other shards" : "",
                                          shards_->tokens(), plural(shards_->tokens()), sequence_length + 1));
}

std::size_t Samples::shard_of(std::int64_t index) const {
  const auto after = std::ranges::upper_bound(first_, index);  // skips shards without a sample
  return static_cast<std::size_t>(after - first_.begin()) - 1;
}

void Samples::read(std::int64_t index, std::span<std::int32_t> tokens) const {
  if (index < 0 || index >= count() || static_cast<std::int64_t>(tokens.size()) != sequence_length_ + 1)
    throw Failure(Exit::internal, fmt::format("sample {} of {} does not exist", index, count()));
  const std::size_t shard = shard_of(index);
  shards_->read(shard, (index - first_[shard]) * sequence_length_, tokens, index);
}

}  // namespace llmc
