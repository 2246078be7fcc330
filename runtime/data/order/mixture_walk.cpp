#include "data/order/mixture_walk.h"

#include <fmt/format.h>

#include <algorithm>

#include "error.h"

namespace llmc {

MixtureWalk::MixtureWalk(const Sources& sources, std::uint64_t seed, std::int64_t sequence_length,
                         const DataPosition& start)
    : mixture_(weights_of(sources)),
      tokens_(sources.size()),
      start_(continue_with(start.sources.empty() ? beginning(sources) : start, sequence_length)),
      drawn_(start_.drawn) {
  for (const Source& source : sources) {
    const auto record = std::ranges::find(start_.sources, source.name, &SourcePosition::name);
    if (record == start_.sources.end())
      throw Failure(Exit::internal, fmt::format("the position has no source '{}'", source.name));
    records_.push_back(static_cast<std::size_t>(record - start_.sources.begin()));
    walks_.emplace_back(source.shards, order_seed(seed, record->order), sequence_length, record->progress);
  }
}

DataPosition MixtureWalk::position() const {
  DataPosition position = start_;
  const bool plain = is_plain(start_);
  for (std::size_t i = 0; i < walks_.size(); ++i) {
    SourcePosition& source = position.sources[records_[i]];
    source.progress = walks_[i].progress();
    position.tokens += tokens_[i];
    if (!plain) source.tokens += tokens_[i];
  }
  if (!plain) position.drawn = drawn_;
  return position;
}

MixtureWalk::Visited MixtureWalk::counted(std::uint32_t source, SampleWalk::Visited visited) {
  tokens_[source] += static_cast<std::uint64_t>(visited.targets);
  return {{visited.id, source}, visited.targets};
}

MixtureWalk::Visited MixtureWalk::next() {
  const std::uint32_t source = turn();
  return counted(source, walks_[source].next());
}

void MixtureWalk::pass_over(std::uint64_t count) {
  for (std::size_t i = 0; i < walks_.size(); ++i)
    walks_[i].pass_over(mixture_.count_of(i, drawn_ + count) - mixture_.count_of(i, drawn_));
  drawn_ += count;
}

}  // namespace llmc
