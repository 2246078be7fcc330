# Compiles the kernels of generated/llama-1b with the flags that llmc gives nvcc, the norms' backward pass for wider
# models, and the norms of heads; fails if ptxas spills. kernels_accesses.cmake reads the former's PTX.
# cmake -DNVCC= -DSOURCE= -DFOLDER= -P kernels_spills.cmake
include(${CMAKE_CURRENT_LIST_DIR}/spills.cmake)
file(GLOB kernels ${SOURCE}/generated/llama-1b/kernels/*.cu)
if(NOT kernels)
  message(FATAL_ERROR "no kernels in ${SOURCE}/generated/llama-1b/kernels")
endif()
foreach(kernel IN LISTS kernels)  # first, because kernels_accesses.cmake counts them
  get_filename_component(name ${kernel} NAME_WE)
  set(archs 90a 100)  # cross-entropy uses clusters
  if(name MATCHES "_warpgroups(_rotated)?$")
    set(archs 90a)
  endif()
  must_not_spill(${name} "${archs}" ${kernel})
endforeach()

# These keep most of a row in registers. Lanes as in compiler/ops/lanes.h: eight columns each.
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
    must_not_spill("rms_norm_backward, ${width} columns, stream ${stream}" "90a;100" -include ${FOLDER}/${width}.h
      ${SOURCE}/templates/rms_norm_backward.cu)
    file(WRITE ${FOLDER}/one_plus_${width}.h "#include \"${FOLDER}/${width}.h\"
namespace llmc {
constexpr bool kOnePlus = true;
}
")
    must_not_spill("rms_norm_backward with 1 + weight, ${width} columns, stream ${stream}" "90a;100"
      -include ${FOLDER}/one_plus_${width}.h ${SOURCE}/templates/rms_norm_backward.cu)
  endforeach()
endforeach()

# Kernels of the reference run in fp16, with its loss scale. Lanes as in compiler/ops/lanes.h.
foreach(kernel "cross_entropy 131072 512 8" "cross_entropy_capped 131072 512 8" "rms_norm_forward 2048 128 1" "rms_norm_backward 2048 256 1"
        "swiglu_forward 8192 256 1" "swiglu_backward 8192 256 1" "rope 3072 32 1" "embedding_forward 2048 256 1" "embedding_backward 2048 256 1"
        "cast_weights 2048 256 1" "adamw 2048 256 1" "gather_rows 2048 256 1" "gradient_clip_scaled 2048 1024 1" "parameter_norms 2048 32 1")
  separate_arguments(kernel)
  list(POP_FRONT kernel name width lanes cluster)
  file(WRITE ${FOLDER}/fp16.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
#undef LLMC_FURTHER_OPERANDS
#define LLMC_FURTHER_OPERANDS , const LossScale* __restrict__ dynamic_scale
namespace llmc {
using Act = fp16;
using Residual = float;
constexpr int kRows = 8192, kCols = ${width}, kPitch = ${width}, kLanes = ${lanes}, kCluster = ${cluster}, kBlocks = 1024, kSequence = 2048,
              kHeads = 40, kKvHeads = 8, kHeadDim = 64, kParameters = 148, kGroups = -1;
constexpr float kEps = 1e-5f, kZLoss = 0.0f, kSoftcap = 30.0f, kScale = 1.0f;
constexpr bool kGradient = true, kLossScaled = true, kResidual = true, kRecompute = true, kInverse = false, kScaled = false, kCopy = true,
               kNorms = true, kGradientShare = false, kWeightShare = false;
}
")
  must_not_spill("${name} in fp16" "90a;100" -include ${FOLDER}/fp16.h ${SOURCE}/templates/${name}.cu)
endforeach()

# Logits with a soft cap: Gemma's, and as many as one block has; clusters and lanes as in compiler/ops/lanes.h.
foreach(shape "262144 8 512" "32768 1 1024")
  separate_arguments(shape)
  list(POP_FRONT shape width cluster lanes)
  file(WRITE ${FOLDER}/capped_${width}.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
constexpr int kRows = 4096, kCols = ${width}, kPitch = ${width}, kLanes = ${lanes}, kCluster = ${cluster};
constexpr bool kGradient = true;
constexpr float kZLoss = 1e-4f, kSoftcap = 30.0f;
}
")
  must_not_spill("cross_entropy_capped, ${width} columns" "90a;100" -include ${FOLDER}/capped_${width}.h
    ${SOURCE}/templates/cross_entropy_capped.cu)
endforeach()

# Cross-entropy of vocabularies whose rows a lane keeps only in part, or not: GPT-2's, Qwen's, Gemma's. Lanes as in
# compiler/ops/lanes.h. On sm_100 rows that a lane keeps, of other widths than 131,072, spill up to 16 bytes.
foreach(shape "50304 1024 1 80" "40000 1024 1 80;100" "151936 512 8 90a" "200064 512 8 90a;100" "262144 512 8 90a;100")
  separate_arguments(shape)
  list(POP_FRONT shape width lanes cluster archs)
  foreach(gradient false true)
    file(WRITE ${FOLDER}/vocabulary.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
constexpr int kRows = 8192, kCols = ${width}, kPitch = ${width}, kLanes = ${lanes}, kCluster = ${cluster};
constexpr bool kGradient = ${gradient};
constexpr float kZLoss = 0;
}
")
    must_not_spill("cross_entropy, ${width} columns, gradient ${gradient}" "${archs}" -include ${FOLDER}/vocabulary.h
      ${SOURCE}/templates/cross_entropy.cu)
  endforeach()
endforeach()

# Sums over more tokens than generated/llama-1b has in a pass.
file(WRITE ${FOLDER}/tokens.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
constexpr int kRows = 65536, kLanes = 1024;
}
")
must_not_spill("loss_sum, 65536 tokens" "80;90a;100" -include ${FOLDER}/tokens.h ${SOURCE}/templates/loss_sum.cu)

# Rows and weights of products in e4m3: the reference run's, with lanes as in compiler/ops/lanes.h.
foreach(shape "2048 128 false" "3072 256 true" "8192 512 false" "16384 1024 true")
  separate_arguments(shape)
  list(POP_FRONT shape width lanes folded)
  file(WRITE ${FOLDER}/codes_${width}.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
using Result = e4m3;
using Scale = float;
constexpr int kRows = 32768, kCols = ${width}, kPitch = ${width}, kLanes = ${lanes};
constexpr bool kFolded = ${folded}, kWeight = false;
}
")
  must_not_spill("quantise, ${width} columns" 90a -include ${FOLDER}/codes_${width}.h ${SOURCE}/templates/quantise.cu)
endforeach()
# Kernels that quantise what they compute, as `fp8` and `fp8_full` have them.
foreach(kernel "rms_norm_forward 2048 128" "rms_norm_backward 2048 256" "rms_norm_backward 8192 1024" "swiglu_forward 8192 256"
        "swiglu_forward 28672 1024" "swiglu_backward 8192 256" "swiglu_backward 16384 512" "rope_backward 3072 32")
  separate_arguments(kernel)
  list(POP_FRONT kernel name width lanes)
  foreach(full false true)
    if(full)
      set(numbers false)
    else()
      set(numbers true)
    endif()
    file(WRITE ${FOLDER}/quantised.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
using Residual = float;
using Result = e4m3;
constexpr int kRows = 32768, kCols = ${width}, kPitch = ${width}, kLanes = ${lanes}, kBlocks = 1024, kSequence = 2048, kHeads = 40,
              kKvHeads = 8, kHeadDim = 64;
constexpr float kEps = 1e-5f;
constexpr bool kResidual = true, kRecompute = true, kCodes = true, kNumbers = ${numbers}, kRecomputeCodes = ${full};
}
")
    must_not_spill("${name}_quantised, ${width} columns, numbers ${numbers}" 90a -include ${FOLDER}/quantised.h
      ${SOURCE}/templates/${name}_quantised.cu)
  endforeach()
endforeach()
# The same with transposed codes, of the reference run and as wide as a block has memory for. kernels_accesses.cmake reads the former.
file(WRITE ${FOLDER}/ptx/numbers.cmake "")
foreach(kernel "rms_norm_backward 2048 256 32" "rms_norm_backward 7168 1024 32" "swiglu_backward 8192 1024 16" "swiglu_backward 14336 1024 16")
  separate_arguments(kernel)
  list(POP_FRONT kernel name width lanes collected)
  file(WRITE ${FOLDER}/transposed.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
#undef LLMC_FURTHER_OPERANDS
#define LLMC_FURTHER_OPERANDS , const float* __restrict__ shared_scale, float* __restrict__ transposed_scales
namespace llmc {
using Act = bf16;
using Residual = float;
using Result = e4m3;
constexpr int kRows = 32768, kCols = ${width}, kPitch = ${width}, kLanes = ${lanes}, kBlocks = 1024, kCollected = ${collected}, kPiece = 16;
constexpr bool kResidual = true, kRecompute = true, kCodes = true, kNumbers = false, kRecomputeCodes = true;
}
")
  if(width MATCHES "2048|8192")
    get_property(before GLOBAL PROPERTY spill_kernels)
    list(LENGTH before number)
    file(APPEND ${FOLDER}/ptx/numbers.cmake "set(number_of_${name}_quantised ${number})\n")
  endif()
  must_not_spill("${name}_quantised, transposed, ${width} columns" 90a -include ${FOLDER}/transposed.h
    ${SOURCE}/templates/${name}_quantised.cu)
endforeach()
file(WRITE ${FOLDER}/weight.h "#define LLMC_PARAMS_GIVEN
namespace llmc {
constexpr int kHeight = 16384, kWidth = 2048, kPitch = 2048, kCluster = 8, kLanes = 256;
constexpr bool kFolded = true, kStraight = true;
}
")
must_not_spill("transpose_codes" 90a -include ${FOLDER}/weight.h ${SOURCE}/templates/cuda/transpose_codes.cu)
must_not_spill("quantise_transposed" 90a -include ${FOLDER}/weight.h ${SOURCE}/templates/cuda/quantise_transposed.cu)
file(WRITE ${FOLDER}/tensor.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
using Code = e5m2;
using Result = e5m2;
constexpr int kRows = 32768, kCols = 16384, kHeight = 32768, kWidth = 16384, kPitch = 16384, kBlocks = 1024;
constexpr bool kStraight = true;
}
")
foreach(kernel "largest_magnitude 512" "quantise_by_tensor 512" "cuda/quantise_by_tensor_transposed 256")
  separate_arguments(kernel)
  list(POP_FRONT kernel name lanes)
  file(WRITE ${FOLDER}/tensor_${lanes}.h "#include \"${FOLDER}/tensor.h\"
namespace llmc {
constexpr int kLanes = ${lanes};
}
")
  must_not_spill("${name}" "89;90a;100" -include ${FOLDER}/tensor_${lanes}.h ${SOURCE}/templates/${name}.cu)
endforeach()
# Blocks of numbers and of codes, in as many lanes as compiler/ops/quantising/quantise_blocks.cpp has.
foreach(blocks "bf16 80" "e4m3 100")
  separate_arguments(blocks)
  list(POP_FRONT blocks result arch)
  foreach(direction "false 4" "true 32")
    separate_arguments(direction)
    list(POP_FRONT direction down lanes)
    file(WRITE ${FOLDER}/blocks.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
using Result = ${result};
constexpr int kRows = 32768, kCols = 16384, kLanes = ${lanes};
constexpr bool kDown = ${down};
}
")
    must_not_spill("quantise_blocks, ${result}, down ${down}" ${arch} -include ${FOLDER}/blocks.h
      ${SOURCE}/templates/quantise_blocks.cu)
  endforeach()
endforeach()

# Updates with state in 8 bits and of split masters, as the reference run would have them; a lane keeps eight elements
# of a block, its masters and both moments in registers.
foreach(update "adamw_int8 32 false" "adamw_int8 32 true" "adamw_split 256 true" "lion_split 256 true" "muon 256 false" "muon 256 true"
        "muon_momentum 256 false" "scale_rows 256 false" "row_norms 64 false" "muon_factors 128 false" "neuron_factors 128 false" "join_masters 256 true"
        "split_masters 256 true" "embedding_split 256 true")
  separate_arguments(update)
  list(POP_FRONT update name lanes split)
  file(WRITE ${FOLDER}/update.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
using Source = float;
using Result = bf16;
constexpr bool kResult = false, kPolarExpress = false;
constexpr int kChunkCount = 31000, kRows = 8192, kCols = 2048, kPitch = 2048, kLanes = ${lanes};
constexpr int kGroups = 0b1011;
constexpr float kScale = 12.0f;
constexpr bool kScaled = true;
constexpr bool kNorms = true, kCopy = true, kSplit = ${split}, kGradientShare = false, kWeightShare = false;
}
")
  must_not_spill("${name}, split ${split}" "80;90a;100" -include ${FOLDER}/update.h ${SOURCE}/templates/${name}.cu)
endforeach()

# Half a head per vector and lane, as in compiler/ops/lanes.h, of up to six rows at once.
foreach(heads "64 4" "80 8" "128 8" "256 16")
  separate_arguments(heads)
  list(GET heads 0 dim)
  list(GET heads 1 lanes)
  math(EXPR pitch "48 * ${dim}")
  file(WRITE ${FOLDER}/heads_${dim}.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
constexpr int kRows = 32768, kSequence = 2048, kHeads = 32, kKvHeads = 8, kHeadDim = ${dim}, kPitch = ${pitch};
constexpr int kWeightPitch = ${dim}, kBlocks = 1024, kLanes = ${lanes};
constexpr float kEps = 1e-6f;
constexpr bool kUnrotated = false;
}
")
  foreach(kernel qk_norm_rope qk_norm_rope_backward qk_rope_norm qk_rope_norm_backward)
    must_not_spill("${kernel}, heads of ${dim}" "80;90a;100" -include ${FOLDER}/heads_${dim}.h ${SOURCE}/templates/${kernel}.cu)
  endforeach()
endforeach()

# RoPE of halves of 40 heads of 128 and of their neighbours, whose rows a block has.
foreach(part "false false" "true false" "false true" "true true")
  separate_arguments(part)
  list(POP_FRONT part interleaved scaled)
  file(WRITE ${FOLDER}/rope_part.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
constexpr int kRows = 32768, kSequence = 2048, kHeads = 40, kHeadDim = 128, kRotary = 64, kPitch = 6144, kLanes = 128;
constexpr int kKvHeads = 8, kOriginal = 1024;
constexpr float kBeta = 0.1f;
constexpr bool kInverse = true, kInterleaved = ${interleaved}, kScaled = ${scaled};
}
")
  must_not_spill("rope_part, interleaved ${interleaved}, scaled ${scaled}" "80;90a;100" -include ${FOLDER}/rope_part.h ${SOURCE}/templates/rope_part.cu)
endforeach()

# Norms over q and k, as wide as OLMo 2 of 1B and 7B have them, and of results; lanes as in compiler/ops/lanes.h.
foreach(heads "16 16 128" "32 64 256")
  separate_arguments(heads)
  list(GET heads 0 count)
  math(EXPR width "${count} * 128")
  math(EXPR pitch "3 * ${width}")
  foreach(kernel "qk_width_norm_rope 1" "qk_width_norm_rope_backward 2" "rms_norm_add 2" "round_stream 2" "activation_forward 2" "activation_backward 2")
    separate_arguments(kernel)
    list(GET kernel 0 name)
    list(GET kernel 1 which)
    list(GET heads ${which} lanes)
    if(name STREQUAL "qk_width_norm_rope")
      math(EXPR lanes "${width} / 32")
    endif()
    file(WRITE ${FOLDER}/width.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
using Residual = float;
constexpr int kRows = 32768, kSequence = 2048, kHeads = ${count}, kKvHeads = ${count}, kHeadDim = 128, kCols = ${width};
constexpr int kPitch = ${pitch}, kBlocks = 1024, kLanes = ${lanes};
constexpr float kEps = 1e-6f;
constexpr bool kUnrotated = false, kCopy = true, kRecompute = true, kGelu = true;
}
")
    must_not_spill("${name}, width ${width}" "80;90a;100" -include ${FOLDER}/width.h ${SOURCE}/templates/${name}.cu)
  endforeach()
endforeach()
check_spills()
