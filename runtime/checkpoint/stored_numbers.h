// Converts tensor elements of files to fp32.
#pragma once

#include <cstddef>
#include <span>

#include "checkpoint/safetensors_header.h"
#include "program/dtype.h"

namespace llmc {

/// The type that a file holds elements in which lie in memory in this one.
safetensors::Dtype stored_type(DType dtype);

/// Elements of F32, F16 or BF16, exactly; of U8 and I32, which are codes or counts, as the nearest numbers. Throws
/// Failure(internal) at another type. `stored` has as many elements as `values`.
void widen(safetensors::Dtype dtype, std::span<const std::byte> stored, std::span<float> values);

}  // namespace llmc
