// Declares kernel instances that instances.cmake creates.
#pragma once

/// Declares llmc::NAME, of a namespace of its own: its template's other names are those of other instances.
#define LLMC_DECLARE_INSTANCE(name, ...) \
  namespace of_##name {                  \
    void name(__VA_ARGS__);              \
  }                                      \
  using of_##name::name;
