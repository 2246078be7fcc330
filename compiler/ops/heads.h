// Declares the layout of a row of q, k and v: an attribute of all ops on heads.
#pragma once

#include <cstdint>
#include <string>

namespace llmc::ops {

struct Heads {
  std::int64_t query = 0, key = 0, dim = 0;  // heads of q, heads of k and of v, elements of one
  std::int64_t columns() const { return (query + 2 * key) * dim; }
  std::string text() const;
};

}  // namespace llmc::ops
