# Instances of the templates that transpose codes: less than a tile, several tiles with parts of one at both ends, and a
# weight whose columns several blocks of a cluster share.
include(${CMAKE_CURRENT_LIST_DIR}/instances.cmake)

# Appends the instances to ${out}.
function(transposed_codes_instances out)
  foreach(shape "small 48 80 80 false" "large 272 144 160 true")
    separate_arguments(shape)
    list(POP_FRONT shape name height width pitch folded)
    cuda_instance(${out} cuda/transpose_codes ${name} "int kHeight = ${height}" "int kWidth = ${width}" "int kPitch = ${pitch}"
      "bool kFolded = ${folded}" "int kLanes = 256")
  endforeach()
  foreach(shape "small 48 80 80 8 false" "wide 144 2320 2336 8 true" "pair 80 528 528 2 true")
    separate_arguments(shape)
    list(POP_FRONT shape name height width pitch cluster straight)
    cuda_instance(${out} cuda/quantise_transposed ${name} "int kHeight = ${height}" "int kWidth = ${width}" "int kPitch = ${pitch}"
      "int kCluster = ${cluster}" "bool kStraight = ${straight}" "int kLanes = 256")
  endforeach()
  set(${out} ${${out}} PARENT_SCOPE)
endfunction()
