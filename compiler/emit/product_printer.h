// Prints the step's matrix products: constants of type GemmShape.
#pragma once

#include <string>

#include "compiler/emit/printer.h"
#include "compiler/plan/plan.h"

namespace llmc::emit {

/// Returns "[64, 32] x [96, 32]^T -> [64, 96] bf16 + bias".
std::string product_text(const plan::Product& product);

/// Prints one constant for each product, and kProducts, the list of all.
void print_products(SourceWriter& out, const plan::Plan& plan);

}  // namespace llmc::emit
