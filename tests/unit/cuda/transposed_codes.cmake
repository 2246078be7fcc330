# Instances of the templates that transpose codes: less than a tile, several tiles with parts of one at both ends, and a
# weight whose columns several blocks of a cluster share. Kernels that collect codes of what they compute, and the same
# without: rows of four groups in a block and of one, of which a block has less than it collects, and more; and rows of
# which a lane has more than a vector.
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
  set(operands "operands , const float* __restrict__ shared_scale, float* __restrict__ transposed_scales")
  set(flags "using Act = bf16" "using Result = e4m3" "bool kRecompute = true" "bool kRecomputeCodes = true")
  foreach(shape "few 48 80 6 32 8 8" "parts 240 144 6 32 32 8" "wide 96 2064 2 512 32 16" "four 24 80 2 32 12 4")
    separate_arguments(shape)
    list(POP_FRONT shape name rows cols blocks lanes collected piece)
    set(own ${flags} "using Residual = float" "bool kResidual = true" "bool kCodes = true" "int kRows = ${rows}" "int kCols = ${cols}"
      "int kPitch = ${cols}" "int kBlocks = ${blocks}" "int kLanes = ${lanes}")
    cuda_instance(${out} rms_norm_backward_quantised ${name} ${own})
    cuda_instance(${out} rms_norm_backward_quantised ${name}_transposed ${own} "int kCollected = ${collected}" "int kPiece = ${piece}"
      ${operands})
  endforeach()
  foreach(shape "few 48 80 32" "wide 80 2064 512" "long 32 2064 128")
    separate_arguments(shape)
    list(POP_FRONT shape name rows cols lanes)
    set(own ${flags} "bool kNumbers = false" "int kRows = ${rows}" "int kCols = ${cols}" "int kPitch = ${cols}")
    cuda_instance(${out} swiglu_backward_quantised ${name} ${own} "int kLanes = 128")
    cuda_instance(${out} swiglu_backward_quantised ${name}_transposed ${own} "int kLanes = ${lanes}" "int kCollected = 16"
      "int kPiece = 16" ${operands})
  endforeach()
  set(${out} ${${out}} PARENT_SCOPE)
endfunction()
