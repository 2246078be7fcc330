#include <algorithm>
#include <cmath>

#include "compiler/ops/update.h"
#include "compiler/tools/float64/formats.h"
#include "compiler/tools/float64/rules.h"
#include "compiler/tools/float64/update.h"

namespace llmc::float64 {

using namespace ops;

namespace {

/// A moment of 8 bits: an input of codes and the next one, their scales.
class Moment {
 public:
  Moment(OpRun& run, std::size_t codes)
      : run_(run),
        codes_(run.inputs.at(codes)),
        scales_(run.inputs.at(codes + 1)),
        block_(run.graph.at(run.op.inputs.at(codes + 1)).state_block),
        signed_(run.input_type(codes) == DType::dynamic8),
        map_(dynamic_map(signed_)),
        numbers_(static_cast<std::size_t>(codes_.matrix.cols)),
        bounds_(numbers_.size()) {
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      numbers_[i] = codes_.matrix.data[i] * scales_.matrix.data[static_cast<std::int64_t>(i) / block_];
  }

  StateNumbers numbers() { return {numbers_.data(), bounds_.data()}; }

  /// Rounds the blocks of the chunks that the op updates. A code may be that of any number within the error of fp32.
  void round() {
    codes_.least.assign(codes_.matrix.data, codes_.matrix.data + codes_.matrix.cols);
    codes_.most = codes_.least;
    scales_.scales(scales_.matrix.cols);
    const GroupSet updated = run_.op.as<UpdateAttributes>().groups;
    for (const Chunk& chunk : chunks_of(run_, kUpdateChunks)) {
      if (!holds(updated, chunk.group)) continue;
      const std::int64_t first = chunk.state - run_.state_begin, end = first + chunk.length;
      for (std::int64_t at = first; at < end; at += block_) round(at, std::min(at + block_, end));
    }
  }

 private:
  void round(std::int64_t begin, std::int64_t end) {
    double largest = 0, bound = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      largest = std::max(largest, std::abs(number(i)));
      bound = std::max(bound, bounds_[static_cast<std::size_t>(i)]);
    }
    if (largest > 0) largest = std::max(largest, 0x1p-100);
    scales_.matrix.data[begin / block_] = largest;
    scales_.scale[static_cast<std::size_t>(begin / block_)] = bound;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double part = largest > 0 ? number(i) / largest : 0;
      const double error = largest > 0 ? kNoise * (bounds_[at] + bound * std::abs(part)) / largest : 0;
      codes_.matrix.data[i] = rounded(part);
      codes_.least[at] = rounded(part - error);
      codes_.most[at] = rounded(part + error);
      if (!signed_ && part > 0) codes_.least[at] = std::max(codes_.least[at], map_[1]);
    }
  }

  double number(std::int64_t i) const { return numbers_[static_cast<std::size_t>(i)]; }

  /// A second moment above 0 never becomes 0.
  double rounded(double part) const {
    const double found = nearest(part, map_);
    return !signed_ && part > 0 ? std::max(found, map_[1]) : found;
  }

  static constexpr double kNoise = 16 * kFp32;  // of both scales, the product with the inverse, and the search
  OpRun& run_;
  OpValue &codes_, &scales_;
  const std::int64_t block_;
  const bool signed_;
  const std::vector<double> map_;
  std::vector<double> numbers_, bounds_;
};

}  // namespace

/// AdamW, whose moments are then rounded to the dynamic map, each over the largest magnitude of its block.
void adamw_int8(OpRun& run) {
  Moment first(run, kUpdateState), second(run, kUpdateState + 2);
  const StateNumbers state[] = {first.numbers(), second.numbers()};
  if (!update(run, state, adamw_formula)) return;
  first.round();
  second.round();
}

}  // namespace llmc::float64
