# Compiles templates/cuda/attention_* for some head_dim; fails if ptxas spills.
# cmake -DNVCC= -DSOURCE= -DFOLDER= -P attention_spills.cmake
include(${CMAKE_CURRENT_LIST_DIR}/spills.cmake)
foreach(head_dim 16 40 64 96 128)
  math(EXPR out_pitch "32 * ${head_dim}")
  math(EXPR pitch "48 * ${head_dim}")
  file(WRITE ${FOLDER}/${head_dim}.h "#include \"device/types.h\"
#define LLMC_PARAMS_GIVEN
#undef LLMC_MASK
#define LLMC_MASK {kSequence, 0}
namespace llmc {
using Act = bf16;
constexpr int kBatch = 2, kSequence = 2048, kHeads = 32, kKvHeads = 8, kHeadDim = ${head_dim}, kPitch = ${pitch};
constexpr int kOutPitch = ${out_pitch}, kLanes = 128;
constexpr float kScale = 0.125f;
}
")
  foreach(kernel attention_forward attention_backward_queries attention_backward_keys)
    must_not_spill("${kernel}, head_dim ${head_dim}" "80;90a;100" -include ${FOLDER}/${head_dim}.h ${SOURCE}/templates/cuda/${kernel}.cu)
  endforeach()
  file(WRITE ${FOLDER}/capped_${head_dim}.h "#include \"${FOLDER}/${head_dim}.h\"
namespace llmc {
constexpr float kSoftcap = 50.0f;
}
")
  file(READ ${FOLDER}/${head_dim}.h params)
  string(REPLACE "using Act = bf16" "using Act = fp16" params "${params}")
  file(WRITE ${FOLDER}/fp16_${head_dim}.h "${params}")
  foreach(kernel attention_forward attention_backward_queries attention_backward_keys)
    must_not_spill("${kernel} in fp16, head_dim ${head_dim}" "80;90a;100" -include ${FOLDER}/fp16_${head_dim}.h
      ${SOURCE}/templates/cuda/${kernel}.cu)
    must_not_spill("${kernel} with a soft cap, head_dim ${head_dim}" 90a -include ${FOLDER}/capped_${head_dim}.h
      ${SOURCE}/templates/cuda/${kernel}.cu)
    must_not_spill("${kernel}_scalar with a soft cap, head_dim ${head_dim}" 90a -include ${FOLDER}/capped_${head_dim}.h
      ${SOURCE}/templates/cuda/${kernel}_scalar.cu)
  endforeach()
  foreach(kernel attention_forward attention_backward_queries attention_backward_keys)
    must_not_spill("${kernel}_scalar, head_dim ${head_dim}" "80;90a;100" -include ${FOLDER}/${head_dim}.h
      ${SOURCE}/templates/cuda/${kernel}_scalar.cu)
  endforeach()
  if(head_dim MATCHES "^(64|96|128)$")
    foreach(kernel attention_forward attention_backward_queries attention_backward_keys)
      must_not_spill("${kernel}_warpgroups, head_dim ${head_dim}" 90a -include ${FOLDER}/${head_dim}.h ${SOURCE}/templates/cuda/${kernel}_warpgroups.cu)
      file(WRITE ${FOLDER}/documents.h "#undef LLMC_FURTHER_OPERANDS
#define LLMC_FURTHER_OPERANDS , const int* document_begin, const int* document_end
#include \"${FOLDER}/${head_dim}.h\"
#undef LLMC_MASK
#define LLMC_MASK Mask{kSequence, 1000}.with_documents(document_begin, document_end, batch)
namespace llmc {
constexpr bool kBounded = true;
}
")
      if(kernel MATCHES "backward")
        file(WRITE ${FOLDER}/rotated.h "#undef LLMC_FURTHER_OPERANDS
#define LLMC_FURTHER_OPERANDS , const float* rope_table
#include \"${FOLDER}/${head_dim}.h\"
namespace llmc {
constexpr bool kRotates = true;
}
")
        file(READ ${FOLDER}/documents.h params)
        string(REPLACE "OPERANDS , const int* document_begin" "OPERANDS , const float* rope_table, const int* document_begin" params "${params}")
        string(REPLACE "kBounded" "kRotates = true, kResets = true, kBounded" params "${params}")
        file(WRITE ${FOLDER}/rotated_documents.h "${params}")
        foreach(rotated rotated rotated_documents)
          must_not_spill("${kernel}_warpgroups, ${rotated}, head_dim ${head_dim}" 90a -include ${FOLDER}/${rotated}.h
            ${SOURCE}/templates/cuda/${kernel}_warpgroups.cu)
        endforeach()
      endif()
      must_not_spill("${kernel}_warpgroups with a soft cap, head_dim ${head_dim}" 90a -include ${FOLDER}/capped_${head_dim}.h
        ${SOURCE}/templates/cuda/${kernel}_warpgroups.cu)
      file(READ ${FOLDER}/documents.h params)
      file(WRITE ${FOLDER}/capped_documents.h "${params}
namespace llmc {
constexpr float kSoftcap = 50.0f;
}
")
      must_not_spill("${kernel}_warpgroups with a soft cap, window of documents, head_dim ${head_dim}" 90a
        -include ${FOLDER}/capped_documents.h ${SOURCE}/templates/cuda/${kernel}_warpgroups.cu)
      must_not_spill("${kernel}_warpgroups, window of documents, head_dim ${head_dim}" 90a -include ${FOLDER}/documents.h
        ${SOURCE}/templates/cuda/${kernel}_warpgroups.cu)
      # Copies for a cluster: alone, and with all that takes registers.
      if(NOT kernel MATCHES "keys")
        file(READ ${FOLDER}/${head_dim}.h params)
        file(WRITE ${FOLDER}/multicast.h "#undef LLMC_FURTHER_OPERANDS
#define LLMC_FURTHER_OPERANDS , const __grid_constant__ TileMap key_map
${params}
namespace llmc {
constexpr int kMulticast = 4;
}
")
        set(most ${FOLDER}/documents.h)
        if(kernel MATCHES "backward")
          set(most ${FOLDER}/rotated_documents.h)
        endif()
        file(READ ${most} params)
        string(REPLACE "int* document_end" "int* document_end, const __grid_constant__ TileMap key_map" params "${params}")
        file(WRITE ${FOLDER}/multicast_most.h "${params}
namespace llmc {
constexpr int kMulticast = 4;
constexpr float kSoftcap = 50.0f;
}
")
        foreach(shared multicast multicast_most)
          must_not_spill("${kernel}_warpgroups, ${shared}, head_dim ${head_dim}" 90a -include ${FOLDER}/${shared}.h
            ${SOURCE}/templates/cuda/${kernel}_warpgroups.cu)
        endforeach()
      endif()
    endforeach()
  endif()
endforeach()
check_spills()
