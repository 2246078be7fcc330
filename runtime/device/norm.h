// Defaults of the weights of norms. An instance of another kind has parameters of these names in namespace llmc, which
// shadow these.
#pragma once

constexpr bool kOnePlus = false;     // a weight w stands for the factor 1 + w
constexpr bool kUnweighted = false;  // the weights are ones that have no gradient
