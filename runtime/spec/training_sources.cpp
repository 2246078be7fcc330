#include "spec/training_sources.h"

#include <algorithm>

namespace llmc::spec {

std::vector<MixedSource> training_sources(const Data& data) {
  if (data.mixture.empty()) return {{.name = "", .source = data.train, .weight = 1}};
  std::vector<MixedSource> sources = data.mixture;
  for (MixedSource& source : sources) {
    if (source.source.format.empty()) source.source.format = data.train.format;
    if (sources.size() == 1) source.weight = 1;
  }
  std::ranges::sort(sources, {}, &MixedSource::name);
  return sources;
}

}  // namespace llmc::spec
