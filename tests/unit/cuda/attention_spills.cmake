# Compiles templates/cuda/attention_* for head_dim 64 and 128 and three architectures; fails where ptxas spills.
# cmake -DNVCC= -DSOURCE= -DFOLDER= -P attention_spills.cmake
file(MAKE_DIRECTORY ${FOLDER})
foreach(head_dim 64 128)
  math(EXPR out_pitch "32 * ${head_dim}")
  math(EXPR pitch "48 * ${head_dim}")
  file(WRITE ${FOLDER}/${head_dim}.h "#define LLMC_PARAMS_GIVEN
namespace llmc {
constexpr int kBatch = 2, kSequence = 2048, kHeads = 32, kKvHeads = 8, kHeadDim = ${head_dim}, kPitch = ${pitch};
constexpr int kOutPitch = ${out_pitch}, kLanes = 128;
constexpr float kScale = 0.125f;
}
")
  foreach(kernel attention_forward attention_backward_queries attention_backward_keys)
    execute_process(
      COMMAND ${NVCC} -std=c++20 -O3 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a
        -gencode arch=compute_100,code=sm_100 -Xptxas -v -I${SOURCE}/runtime -include ${FOLDER}/${head_dim}.h
        -c ${SOURCE}/templates/cuda/${kernel}.cu -o ${FOLDER}/${kernel}.o
      RESULT_VARIABLE status OUTPUT_VARIABLE report ERROR_VARIABLE report)
    string(REGEX MATCHALL "[0-9]+ bytes spill stores" spills "${report}")
    message("${kernel}, head_dim ${head_dim}: ${spills}")
    if(NOT status EQUAL 0 OR NOT "${spills}" STREQUAL "0 bytes spill stores;0 bytes spill stores;0 bytes spill stores")
      message(FATAL_ERROR "${report}")
    endif()
  endforeach()
endforeach()
