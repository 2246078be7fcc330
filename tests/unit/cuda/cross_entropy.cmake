# Instances of templates/cross_entropy.cu whose rows are handled by a warp, one block, and clusters of two to eight.
include(${CMAKE_CURRENT_LIST_DIR}/instances.cmake)
set(cross_entropy_shapes
  # name type rows columns pitch lanes cluster. "again", "long": too long for registers; "pair": a lane keeps five
  # vectors, and not their softmax; "few": most lanes of the cluster have no column
  "warp bf16 7 203 208 32 1"
  "again bf16 4 9001 9008 128 1"
  "block bf16 5 1003 1008 128 1"
  "pair float 5 4099 4100 128 2"
  "long bf16 4 12289 12296 128 2"
  "four bf16 6 16384 16384 512 4"
  "eight bf16 3 65537 65544 512 8"
  "few float 4 130 132 128 8")

# Appends the instances to ${out}.
function(cross_entropy_instances out)
  foreach(shape IN LISTS cross_entropy_shapes)
    separate_arguments(shape)
    list(GET shape 0 name)
    list(GET shape 1 type)
    set(params "using Act = ${type}" "bool kGradient = true" "float kZLoss = 0")
    set(i 2)
    foreach(param kRows kCols kPitch kLanes kCluster)
      list(GET shape ${i} value)
      list(APPEND params "int ${param} = ${value}")
      math(EXPR i "${i} + 1")
    endforeach()
    cuda_instance(${out} cross_entropy ${name} ${params})
  endforeach()
  set(${out} ${${out}} PARENT_SCOPE)
endfunction()
