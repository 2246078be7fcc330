// Identifies a training sample.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace llmc {

/// Number of a sample in a source, which is an index into the run's Sources.
struct SampleId {
  std::uint64_t id = 0;
  std::uint32_t source = 0;

  bool operator==(const SampleId&) const = default;
};

/// Names samples for people and metrics.
class SampleNames {
 public:
  /// `sources`: names of the run's sources, in their order.
  explicit SampleNames(std::vector<std::string> sources) : sources_(std::move(sources)) {}

  /// Whether a sample's number alone identifies it.
  bool are_numbers() const { return sources_.size() == 1 && sources_[0].empty(); }
  /// "12", or of a source with a name "web:12".
  std::string of(SampleId sample) const {
    const std::string& source = sources_.at(sample.source);
    return (source.empty() ? "" : source + ":") + std::to_string(sample.id);
  }

 private:
  std::vector<std::string> sources_;
};

}  // namespace llmc
