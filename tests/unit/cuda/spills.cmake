# must_not_spill(WHAT ARCHS FLAGS...): compiles with nvcc for each of ARCHS; fails if ptxas spills a register.
function(must_not_spill what archs)
  foreach(arch IN LISTS archs)
    execute_process(COMMAND ${NVCC} -std=c++20 -O3 -cubin -arch=sm_${arch} -Xptxas -v -I${SOURCE}/runtime ${ARGN} -o ${FOLDER}/spills.cubin
      RESULT_VARIABLE status OUTPUT_VARIABLE report ERROR_VARIABLE report)
    string(REGEX MATCHALL "[0-9]+ bytes spill stores" spills "${report}")
    message("${what}, sm_${arch}: ${spills}")
    if(NOT status EQUAL 0 OR NOT "${spills}" STREQUAL "0 bytes spill stores")
      message(FATAL_ERROR "${report}")
    endif()
  endforeach()
endfunction()
file(MAKE_DIRECTORY ${FOLDER})
