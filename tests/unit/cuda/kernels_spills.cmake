# Compiles the kernels of generated/llama-1b with the flags that llmc gives nvcc, and the norms' backward pass for wider models;
# fails where ptxas spills.
# cmake -DNVCC= -DSOURCE= -DFOLDER= -P kernels_spills.cmake
include(${CMAKE_CURRENT_LIST_DIR}/spills.cmake)
file(GLOB kernels ${SOURCE}/generated/llama-1b/kernels/*.cu)
if(NOT kernels)
  message(FATAL_ERROR "no kernels in ${SOURCE}/generated/llama-1b/kernels")
endif()
foreach(kernel IN LISTS kernels)
  get_filename_component(name ${kernel} NAME_WE)
  must_not_spill(${name} "90a;100" --fmad=false ${kernel})  # cross-entropy uses clusters
endforeach()

# It keeps most of a row. Lanes as compiler/plan/lanes.h has them: eight columns each.
foreach(width 4096 8192)
  math(EXPR lanes "${width} / 8")
  foreach(stream float bf16)
    file(WRITE ${FOLDER}/${width}.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
using Residual = ${stream};
constexpr int kRows = 32768, kCols = ${width}, kPitch = ${width}, kBlocks = 1024, kLanes = ${lanes};
constexpr bool kResidual = true, kRecompute = true;
}
")
    must_not_spill("rms_norm_backward, ${width} columns, stream ${stream}" "90a;100" --fmad=false -include ${FOLDER}/${width}.h
      ${SOURCE}/templates/rms_norm_backward.cu)
  endforeach()
endforeach()
