// Declares the attributes of quantise_by_tensor, and how many maxima it reads.
#pragma once

#include <cstdint>
#include <string>

#include "program/dtype.h"

namespace llmc::ops {

/// Most maxima of parts of a tensor. They fill a GPU when they are searched, and few enough are read by every block.
constexpr std::int64_t kMostMaxima = 1024;

struct CodeAttributes {
  DType code = DType::e4m3;  // to which it rounds: that of codes in the output, or of the numbers there
  std::string text() const;
};

}  // namespace llmc::ops
