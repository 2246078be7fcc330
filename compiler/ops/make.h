// Makes the ops that passes append, each by a function of its kind's name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace llmc::ops::make {

#define LLMC_MAKER(made, row)                                                                                        \
  inline graph::Op made(std::string name, std::vector<graph::TensorId> inputs, std::vector<graph::TensorId> outputs, \
                        const graph::Attributes& attributes = {}) {                                                  \
    return {.kind = graph::OpKind::made,                                                                             \
            .name = std::move(name),                                                                                 \
            .inputs = std::move(inputs),                                                                             \
            .outputs = std::move(outputs),                                                                           \
            .attributes = attributes};                                                                               \
  }
LLMC_OPS(LLMC_MAKER)
#undef LLMC_MAKER

}  // namespace llmc::ops::make
