// Iterates over the samples of a run from any position in its data: of one source, or of a mixture.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/order/mixture.h"
#include "data/order/position.h"
#include "data/order/sample_id.h"
#include "data/order/sample_walk.h"
#include "data/order/sources.h"

namespace llmc {

class MixtureWalk {
 public:
  /// `start`: a position with these sources, such as continue_in() returns; an empty one is the beginning. Throws
  /// Failure as SampleWalk does.
  MixtureWalk(const Sources& sources, std::uint64_t seed, std::int64_t sequence_length, const DataPosition& start);

  const Samples& samples(std::size_t source) const { return walks_[source].samples(); }
  /// Position after the last sample. Its tokens do not include samples that pass_over() skipped.
  DataPosition position() const;

  struct Visited {
    SampleId sample;
    std::int64_t targets;  // that its epoch had not trained on
  };
  /// Advances to the next sample. `read` is called with a SampleId and returns the sample's targets [sequence_length];
  /// those already trained on in this epoch are set to -1. A sample without others is read, and another one of the same
  /// source takes its turn.
  template <class Read>
  Visited next(Read read) {
    const std::uint32_t source = turn();
    return counted(source, walks_[source].next([&](std::uint64_t id) { return read(SampleId{id, source}); }));
  }
  /// Same without reading it.
  Visited next();

  /// Same as calling next() `count` times, and as fast as SampleWalk::pass_over().
  void pass_over(std::uint64_t count);

 private:
  std::uint32_t turn() { return static_cast<std::uint32_t>(mixture_.source_of(drawn_++)); }
  Visited counted(std::uint32_t source, SampleWalk::Visited visited);

  Mixture mixture_;
  std::vector<SampleWalk> walks_;      // of each source
  std::vector<std::size_t> records_;   // of each source: index in start_.sources
  std::vector<std::uint64_t> tokens_;  // of each source, trained on since the start
  DataPosition start_;
  std::uint64_t drawn_;
};

}  // namespace llmc
