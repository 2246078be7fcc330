// Says which code computes the matrix products of a plan, and in which arithmetic.
#pragma once

#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// Names the library or code that computes a matrix product.
const char* product_by(const plan::Plan& plan, const plan::Product& product);

/// Returns a line on what precision.matmul makes of the plan's products; empty for auto.
std::string matmul_text(const plan::Plan& plan);

/// Lists the products with which Muon orthogonalises, on the rank with most of them; empty for other optimizers.
std::string orthogonalising_text(const plan::Plan& plan);

}  // namespace llmc::report
