# Instances of templates/cuda/attention_*, one file a kernel.
include(${CMAKE_CURRENT_LIST_DIR}/instances.cmake)
set(portable_attention_shapes
  # name batch sequence heads kv_heads head_dim qkv_pitch out_pitch lanes lanes_of_keys scale
  "grouped 2 100 8 1 64 648 528 128 128 0.125f"
  "odd 2 77 6 3 10 124 66 128 128 0.31622777f"
  "wide 1 75 4 2 128 1032 520 128 128 0.088388348f"
  "widest 1 39 2 1 256 1032 520 64 32 0.0625f"
  "short 3 2 2 2 36 224 80 128 128 0.16666667f")

# Writes them into the current build folder, and appends their names to ${out}.
function(portable_attention_instances out)
  foreach(shape IN LISTS portable_attention_shapes)
    separate_arguments(shape)
    list(GET shape 0 name)
    set(params)
    set(i 1)
    foreach(param kBatch kSequence kHeads kKvHeads kHeadDim kPitch kOutPitch)
      list(GET shape ${i} value)
      list(APPEND params "int ${param} = ${value}")
      math(EXPR i "${i} + 1")
    endforeach()
    list(GET shape 10 scale)
    list(GET shape 8 lanes)
    list(GET shape 9 lanes_of_keys)
    list(APPEND params "float kScale = ${scale}")
    foreach(kernel attention_forward attention_backward_queries)
      cuda_instance(${out} cuda/${kernel} ${name} ${params} "int kLanes = ${lanes}")
    endforeach()
    cuda_instance(${out} cuda/attention_backward_keys ${name} ${params} "int kLanes = ${lanes_of_keys}")
  endforeach()
  set(${out} ${${out}} PARENT_SCOPE)
endfunction()
