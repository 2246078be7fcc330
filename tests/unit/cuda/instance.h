// Declares kernel instances that instances.cmake creates.
#pragma once

/// Declares llmc::NAME, of a namespace of its own: its template's other names are those of other instances.
#define LLMC_DECLARE_INSTANCE(name, ...) \
  namespace of_##name {                  \
    void name(__VA_ARGS__);              \
  }                                      \
  using of_##name::name;

/// Declares the three kernels of an attention_instances() shape without documents and rotation.
#define LLMC_DECLARE_ATTENTION(name, Act)                                                                          \
  LLMC_DECLARE_INSTANCE(attention_forward_##name, const Act*, Act*, float*)                                        \
  LLMC_DECLARE_INSTANCE(attention_backward_queries_##name, const Act*, const Act*, const Act*, const float*, Act*, \
                        float*)                                                                                    \
  LLMC_DECLARE_INSTANCE(attention_backward_keys_##name, const Act*, const Act*, const float*, const float*, Act*)
