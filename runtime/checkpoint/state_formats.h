// Converts moments of a checkpoint between fp32 and codes of the dynamic map with a scale for each block.
#pragma once

#include <string>

#include "checkpoint/safetensors.h"
#include "checkpoint/state_access.h"

namespace llmc {

/// Prefix of the tensors with the scales of the codes that have `prefix`: "exp_avg_scale." of "exp_avg.".
std::string scale_prefix(const std::string& prefix);

/// A tensor of codes in a file, and its scales.
struct CodesEntry {
  const safetensors::Reader* reader;
  const safetensors::Entry *codes, *scales;
  DType dtype;  // dynamic8 or udynamic8
};

/// Rounds the numbers of `entry`, F32 of the parameter's shape, as the optimizer's kernel does, and writes codes and
/// scales to these buffers. Throws Failure(checkpoint) as Reader::read.
void quantise_moment(const safetensors::Reader& reader, const safetensors::Entry& entry, const ParameterInfo& parameter,
                     StateAccess& access, std::size_t codes, std::size_t scales);

/// Writes the numbers that codes of the parameter's shape stand for to a buffer of fp32.
void dequantise_moment(const CodesEntry& entry, const ParameterInfo& parameter, StateAccess& access,
                       std::size_t buffer);

/// Sets each of `count` numbers to the code's, of elements from `first` on, times its block's scale.
void dequantise(DType dtype, const std::byte* codes, const std::vector<float>& scales, std::int64_t first,
                std::int64_t count, float* numbers);

/// Returns the scales of a tensor of codes.
std::vector<float> read_scales(const safetensors::Reader& reader, const safetensors::Entry& scales);

}  // namespace llmc
