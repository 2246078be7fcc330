# Compiles the kernels of generated/llama-1b with the flags that llmc gives nvcc; fails where ptxas spills.
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
