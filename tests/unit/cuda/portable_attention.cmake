# Instances of templates/cuda/attention_*, as llmc's --style=include writes them, one file a kernel.
set(portable_attention_shapes
  # name batch sequence heads kv_heads head_dim qkv_pitch out_pitch lanes lanes_of_keys scale
  "grouped 2 100 8 1 64 648 528 128 128 0.125f"
  "odd 2 77 6 3 10 124 66 128 128 0.31622777f"
  "wide 1 75 4 2 128 1032 520 128 128 0.088388348f"
  "widest 1 39 2 1 256 1032 520 64 32 0.0625f"
  "short 3 2 2 2 36 224 80 128 128 0.16666667f")

# Writes them into the current build folder as .${extension}, and their names into ${out}.
function(portable_attention_instances extension out)
  set(files)
  foreach(shape IN LISTS portable_attention_shapes)
    separate_arguments(shape)
    list(GET shape 0 name)
    set(params "namespace llmc {\n")
    set(i 1)
    foreach(param kBatch kSequence kHeads kKvHeads kHeadDim kPitch kOutPitch)
      list(GET shape ${i} value)
      string(APPEND params "constexpr int ${param} = ${value};\n")
      math(EXPR i "${i} + 1")
    endforeach()
    list(GET shape 10 scale)
    string(APPEND params "constexpr float kScale = ${scale};\n")
    foreach(kernel attention_forward attention_backward_queries attention_backward_keys)
      list(GET shape 8 lanes)
      if(kernel STREQUAL attention_backward_keys)
        list(GET shape 9 lanes)
      endif()
      set(file ${CMAKE_CURRENT_BINARY_DIR}/${kernel}_${name}.${extension})
      file(CONFIGURE OUTPUT ${file} CONTENT
        "#define LLMC_PARAMS_GIVEN\n${params}constexpr int kLanes = ${lanes};\n}  // namespace llmc\n#define ${kernel} ${kernel}_${name}\n#include \"templates/cuda/${kernel}.cu\"\n" @ONLY)
      list(APPEND files ${file})
    endforeach()
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()
