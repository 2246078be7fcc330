# Creates kernel instances for tests on GPUs, as written by llmc's --style=include.

# Writes templates/<template>.cu with the name <kernel>_<suffix> and params ("using Act = bf16", "int kCols = 300") to a
# file in the current build folder, and appends it to the list `out`. A param "operands , type name" adds operands.
function(cuda_instance out template suffix)
  set(params)
  set(operands)
  foreach(param IN LISTS ARGN)
    if(param MATCHES "^operands (.*)$")
      set(operands "#undef LLMC_FURTHER_OPERANDS
#define LLMC_FURTHER_OPERANDS ${CMAKE_MATCH_1}
")
    elseif(param MATCHES "^using ")
      string(APPEND params "${param};\n")
    else()
      string(APPEND params "constexpr ${param};\n")
    endif()
  endforeach()
  get_filename_component(kernel ${template} NAME)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${kernel}_${suffix}.cu)
  file(CONFIGURE OUTPUT ${file} CONTENT "${operands}#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
${params}}  // namespace llmc
#define ${kernel} ${kernel}_${suffix}
#include \"templates/${template}.cu\"
" @ONLY)
  set(${out} ${${out}} ${file} PARENT_SCOPE)
endfunction()
