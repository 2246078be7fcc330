# Instances of templates/cuda/attention_*, one file per kernel.
include(${CMAKE_CURRENT_LIST_DIR}/instances.cmake)
set(portable_attention_shapes
  # name batch sequence heads kv_heads head_dim qkv_pitch out_pitch lanes scale [window [documents|whole [softcap]]]
  "grouped 2 100 8 1 64 648 528 128 0.125f"
  "tiles 1 300 4 1 32 192 128 128 0.17677669f"
  "odd 2 77 6 3 10 124 66 128 0.31622777f"
  "wide 1 75 4 2 128 1032 520 128 0.088388348f"
  "widest 1 39 2 1 256 1032 520 64 0.0625f"
  "short 3 2 2 2 36 224 80 128 0.16666667f"
  "window 1 150 4 2 32 264 136 128 0.17677669f 45"
  "window_of_one 1 70 2 1 10 40 24 128 0.31622777f 1"
  "window_but_one 1 139 2 1 128 520 264 128 0.088388348f 138"
  "window_of_widest 1 60 2 1 256 1032 520 64 0.0625f 23"
  "documents 3 200 4 2 32 264 136 128 0.17677669f 0 documents"
  "documents_of_wide 2 90 2 1 128 520 264 128 0.088388348f 21 documents"
  "capped 1 150 4 2 32 264 136 128 0.17677669f 0 whole 1.5f")

# Variants for heads of up to 128 on sm_90a.
set(warpgroup_attention_shapes
  "shared 2 200 8 2 64 776 520 128 0.125f"
  "single 1 64 3 3 64 576 192 128 0.125f"
  "few 3 5 4 1 64 384 256 128 0.125f"
  "sliding 1 200 4 2 64 520 264 128 0.125f 70"
  "of_one 1 70 2 1 64 264 136 128 0.125f 1"
  "but_one 1 130 3 3 64 584 200 128 0.125f 129"
  "divided 3 200 4 2 64 520 264 128 0.125f 0 documents"
  "divided_windows 2 200 3 3 64 584 200 128 0.125f 21 documents"
  "broad 2 200 4 2 128 1032 520 128 0.088388348f"
  "broad_single 1 5 1 1 128 384 128 128 0.088388348f"
  "broad_padded 1 140 4 2 80 648 328 128 0.1118034f"
  "narrow_padded 2 90 2 1 48 200 104 128 0.14433757f"
  "broad_sliding 1 200 2 1 128 520 264 128 0.088388348f 70"
  "broad_divided 2 200 2 1 96 392 200 128 0.10206207f 21 documents"
  "capped 1 150 4 2 64 520 264 128 0.125f 0 whole 1.5f"
  "broad_capped 1 130 2 1 128 520 264 128 0.088388348f 50 whole 1.5f")

# Of some of these shapes, backward kernels that rotate dq and dk back. Those of documents begin positions anew in each.
set(rotated_attention_shapes
  "rotated_shared 2 200 8 2 64 776 520 128 0.125f"
  "rotated_sliding 1 200 4 2 64 520 264 128 0.125f 70"
  "rotated_divided 3 200 4 2 64 520 264 128 0.125f 0 documents"
  "rotated_broad 2 200 4 2 128 1032 520 128 0.088388348f"
  "rotated_broad_divided 2 200 2 1 96 392 200 128 0.10206207f 21 documents"
  "rotated_broad_padded 1 140 4 2 80 648 328 128 0.1118034f"
  "rotated_narrow_padded 2 90 2 1 48 200 104 128 0.14433757f")

# Of some of these shapes, kernels of which 2 or 4 blocks share copies of keys and values.
set(multicast_attention_shapes
  "multicast_4_shared 2 200 8 2 64 776 520 128 0.125f"
  "multicast_4_few 3 5 4 1 64 384 256 128 0.125f"
  "multicast_2_divided 3 200 4 2 64 520 264 128 0.125f 0 documents"
  "multicast_2_broad 2 200 4 2 128 1032 520 128 0.088388348f"
  "multicast_2_broad_padded 1 140 4 2 80 648 328 128 0.1118034f"
  "multicast_2_broad_sliding 1 200 2 1 128 520 264 128 0.088388348f 70"
  "multicast_2_broad_capped 1 130 2 1 128 520 264 128 0.088388348f 50 whole 1.5f"
  "multicast_2_rotated_broad_divided 2 200 2 1 96 392 200 128 0.10206207f 21 documents")

# Variants in fp32.
set(scalar_attention_shapes
  "grouped 2 100 8 1 64 648 528 128 0.125f"
  "odd 2 77 6 3 10 124 66 128 0.31622777f"
  "wide 1 75 4 2 128 1032 520 128 0.088388348f"
  "widest 1 39 2 1 256 1032 520 64 0.0625f"
  "short 3 2 2 2 36 224 80 128 0.16666667f"
  "window 1 150 4 2 32 264 136 128 0.17677669f 45"
  "window_of_one 1 70 2 1 10 40 24 128 0.31622777f 1"
  "window_of_widest 1 60 2 1 256 1032 520 64 0.0625f 23"
  "documents 3 150 4 2 32 264 136 128 0.17677669f 0 documents"
  "documents_of_widest 2 60 2 1 256 1032 520 64 0.0625f 21 documents")

# Variants in fp16.
set(fp16_attention_shapes
  "fp16_grouped 2 100 8 1 64 648 528 128 0.125f"
  "fp16_widest 1 39 2 1 256 1032 520 64 0.0625f"
  "fp16_window 1 150 4 2 32 264 136 128 0.17677669f 45"
  "fp16_documents 3 200 4 2 32 264 136 128 0.17677669f 0 documents")

# Writes them to the current build folder and appends their names to ${out}. twin: suffix of the variant, _warpgroups, _scalar or
# empty. Further arguments are params. Names with "rotated" are of the backward kernels alone, those with "multicast" not of that
# which owns keys.
function(attention_instances out shapes twin)
  foreach(shape IN LISTS shapes)
    separate_arguments(shape)
    list(GET shape 0 name)
    set(params)
    set(i 1)
    foreach(param kBatch kSequence kHeads kKvHeads kHeadDim kPitch kOutPitch)
      list(GET shape ${i} value)
      if(NOT (twin STREQUAL "_warpgroups" AND param STREQUAL kBatch))  # the slowest part of a block's number there
        list(APPEND params "int ${param} = ${value}")
      endif()
      math(EXPR i "${i} + 1")
    endforeach()
    list(LENGTH shape count)
    set(mask "{kSequence, 0}")
    if(count GREATER 10)
      list(GET shape 10 value)
      list(APPEND params "bool kBounded = true")
      set(mask "{kSequence, ${value}}")
    endif()
    if(count GREATER 12)
      list(GET shape 12 value)
      list(APPEND params "float kSoftcap = ${value}")
    endif()
    set(operands)
    set(kernels attention_forward attention_backward_queries attention_backward_keys)
    if(name MATCHES "rotated")
      list(APPEND params "bool kRotates = true")
      string(APPEND operands ", const float* rope_table")
      list(REMOVE_ITEM kernels attention_forward)
    endif()
    if("documents" IN_LIST shape)
      set(mask "Mask${mask}.with_documents(document_begin, document_end, batch)")
      string(APPEND operands ", const int* document_begin, const int* document_end")
      if(name MATCHES "rotated")
        list(APPEND params "bool kResets = true")
      endif()
    endif()
    if(name MATCHES "^multicast_([24])")
      list(APPEND params "int kMulticast = ${CMAKE_MATCH_1}")
      string(APPEND operands ", const __grid_constant__ TileMap key_map")
      list(REMOVE_ITEM kernels attention_backward_keys)
    endif()
    list(APPEND params "operands ${operands}" "mask ${mask}")
    list(GET shape 8 lanes)
    list(GET shape 9 scale)
    foreach(kernel IN LISTS kernels)
      cuda_instance(${out} cuda/${kernel}${twin} ${name} ${params} "float kScale = ${scale}" "int kLanes = ${lanes}" ${ARGN})
    endforeach()
  endforeach()
  set(${out} ${${out}} PARENT_SCOPE)
endfunction()
macro(portable_attention_instances out)
  attention_instances(${out} "${portable_attention_shapes}" "" "using Act = bf16")
  attention_instances(${out} "${fp16_attention_shapes}" "" "using Act = fp16")
endmacro()
macro(warpgroup_attention_instances out)
  attention_instances(${out} "${warpgroup_attention_shapes}" _warpgroups)
  attention_instances(${out} "${rotated_attention_shapes}" _warpgroups)
  attention_instances(${out} "${multicast_attention_shapes}" _warpgroups)
endmacro()
macro(scalar_attention_instances out)
  attention_instances(${out} "${scalar_attention_shapes}" _scalar)
endmacro()
