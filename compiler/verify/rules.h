// The formula of each kind of op in float64, by the file that has it.
#pragma once

#include "compiler/verify/value.h"

namespace llmc::verify {

// products.cpp
void linear(Run& run);
void linear_dgrad(Run& run);
void linear_wgrad(Run& run);

// norms.cpp
void rms_norm(Run& run);
void rms_norm_backward(Run& run);
void rope(Run& run);
void rope_backward(Run& run);
void qk_norm_rope(Run& run);
void qk_norm_rope_backward(Run& run);

// attention.cpp
void attention(Run& run);
void attention_backward(Run& run);

// rows.cpp
void embedding(Run& run);
void embedding_backward(Run& run);
void swiglu(Run& run);
void swiglu_backward(Run& run);
void add(Run& run);
void gather_rows(Run& run);
void column_sum(Run& run);
void column_reduce(Run& run);
void zero(Run& run);

// loss.cpp
void cross_entropy(Run& run);
void cross_entropy_backward(Run& run);
void loss_sum(Run& run);
void audit_loss(Run& run);

// optimizer.cpp
void gradient_norm(Run& run);
void gradient_clip(Run& run);
void adamw(Run& run);
void parameter_norms(Run& run);
void initialise(Run& run);
void cast(Run& run);

}  // namespace llmc::verify
