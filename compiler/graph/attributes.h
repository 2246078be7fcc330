// Lists the attributes of ops: one struct a kind of op, which the op's file in compiler/ops declares and prints.
#pragma once

#include <string>
#include <variant>

#include "compiler/ops/attention/attention.h"
#include "compiler/ops/cross_entropy.h"
#include "compiler/ops/initialise.h"
#include "compiler/ops/linear.h"
#include "compiler/ops/muon/muon.h"
#include "compiler/ops/qk_norm_rope.h"
#include "compiler/ops/quantising/quantise_blocks.h"
#include "compiler/ops/quantising/quantise_by_tensor.h"
#include "compiler/ops/rms_norm.h"
#include "compiler/ops/rope.h"
#include "compiler/ops/swiglu.h"
#include "compiler/ops/update_attributes.h"
#include "compiler/ops/z_loss.h"

namespace llmc::graph {

/// Attributes of an op that has none, because its operands describe it completely.
struct NoAttributes {
  std::string text() const { return ""; }
};

using Attributes =
    std::variant<NoAttributes, ops::LinearAttributes, ops::RmsNormAttributes, ops::RmsNormBackwardAttributes,
                 ops::RopeAttributes, ops::QkNormRopeAttributes, ops::QkNormRopeBackwardAttributes,
                 ops::AttentionAttributes, ops::SwigluAttributes, ops::SwigluBackwardAttributes,
                 ops::CrossEntropyAttributes, ops::SoftCapAttributes, ops::ZLossAttributes, ops::ScaleAttributes,
                 ops::InitialiseAttributes, ops::UpdateAttributes, ops::CodeAttributes, ops::BlockAttributes,
                 ops::MatrixRows, ops::FactorAttributes, ops::NeuronAttributes, ops::ProductAttributes>;

}  // namespace llmc::graph
