// Deals the matrices that an optimizer orthogonalises to the ranks of a run.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

namespace llmc {

/// Owner of each matrix of each layer: layer by layer the costliest first, to the rank with the least work so far, of
/// equal ones the first. A pure function of its arguments, so that all ranks agree. Not inline: a step, which is
/// compiled for one arch, would have its own copies of functions of std::vector, and the linker might keep those for
/// all code.
class MatrixOwners {
 public:
  /// costs: FLOPs of each matrix of a layer.
  MatrixOwners(int ranks, std::size_t layers, std::span<const double> costs);
  MatrixOwners(int ranks, std::size_t layers, std::initializer_list<double> costs);
  MatrixOwners(const MatrixOwners& other);
  ~MatrixOwners();

  int of(std::size_t layer, std::size_t matrix) const { return owners_[layer * matrices_ + matrix]; }
  /// FLOPs of each rank.
  const std::vector<double>& work() const { return work_; }
  /// The rank with most work.
  int busiest() const;

 private:
  std::size_t matrices_;
  std::vector<double> work_;
  std::vector<int> owners_;
};

}  // namespace llmc
