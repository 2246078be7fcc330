// Argument lists of row operations: rows, of which const ones are only read, then the function.
#pragma once

#include "device/types.h"

namespace llmc {

/// Base of every type that can be passed as a row to a row operation.
struct RowArgument {};

template <class T>
constexpr bool kReadOnly = false;
template <class T>
constexpr bool kReadOnly<const T> = true;

/// Calls `visit(function, rows...)` for arguments (rows..., function).
template <class Visit, class First, class... Rest>
LLMC_HD inline __attribute__((always_inline)) void function_first(Visit visit, First& first, Rest&... rest) {
  if constexpr (__is_base_of(RowArgument, First)) {
    function_first(visit, rest..., first);
  } else {
    visit(first, rest...);
  }
}

/// Two neighbours of a row, the first at an even column.
struct Pair {
  float &first, &second;
};

}  // namespace llmc
