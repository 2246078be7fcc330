# Instances of the CPU attention templates with each test's params: name, type, batch, sequence, heads, key heads,
# head_dim [window [scale of the scores, by default head_dim^-0.5 [documents]]]. "narrow" has vectors of four lanes, and
# a head of an odd number of them.
set(instances
    "narrow float 2 77 4 2 12" "tiny float 1 1 1 1 8" "grouped float 2 64 4 2 32" "three float 2 77 6 2 10" "alone float 1 131 3 3 48"
    "eight float 1 100 8 1 64" "five float 2 45 5 1 18" "wide float 1 33 4 1 128"
    "half_tiny bf16 1 1 2 1 8" "half_grouped bf16 2 256 8 4 32" "half_three bf16 2 77 6 2 10"
    "half_five bf16 1 45 5 1 18" "half_alone bf16 1 70 2 2 64" "half_wide bf16 1 33 4 1 128"
    "window float 2 150 4 2 10 45" "window_of_one float 1 40 3 1 8 1" "window_but_one float 1 101 1 1 16 100"
    "half_window bf16 1 200 4 1 16 77" "half_window_of_one bf16 1 70 2 2 8 1" "half_window_but_one bf16 1 101 2 1 16 100"
    "scaled float 2 77 6 2 10 0 0.5f" "half_scaled bf16 2 77 6 2 10 0 0.5f"
    "documents float 3 150 4 2 10 0 0.316227766f documents" "half_documents bf16 3 200 4 1 16 0 0.25f documents"
    "windows_of_documents float 2 131 6 2 32 21 0.176776695f documents"
    "half_windows_of_documents bf16 2 133 3 3 48 21 0.144337567f documents")
# head_dim^-0.5
set(scale_8 0.353553391f)
set(scale_10 0.316227766f)
set(scale_12 0.288675135f)
set(scale_16 0.25f)
set(scale_18 0.235702260f)
set(scale_32 0.176776695f)
set(scale_48 0.144337567f)
set(scale_64 0.125f)
set(scale_128 0.0883883476f)
set(generated ${CMAKE_CURRENT_BINARY_DIR}/attention)
set(sources)
set(table)
set(soft_sources)
set(hard_sources)
foreach(line IN LISTS instances)
  string(REPLACE " " ";" field "${line}")
  list(LENGTH field count)
  if(count LESS 8)
    list(APPEND field 0)
  endif()
  list(GET field 6 head_dim)
  list(APPEND field ${scale_${head_dim}})
  list(POP_FRONT field name act batch sequence heads kv_heads head_dim window scale documents)
  set(kind INSTANCE)
  set(tile_kind TILES)
  set(operands)
  set(bounded false)
  set(mask "{kSequence, ${window}}")
  if(documents OR window GREATER 0)
    set(bounded true)
  endif()
  if(documents)
    set(kind DOCUMENTS)
    set(tile_kind TILES_OF_DOCUMENTS)
    set(operands "#define LLMC_FURTHER_OPERANDS , const int* document_begin, const int* document_end")
    string(CONCAT mask "Mask${mask}" ".with_documents(document_begin, document_end, batch)")
  else()
    set(documents)
  endif()
  # Rows have more padding than the minimum, so that confusing pitch and width fails.
  math(EXPR pitch "((${heads} + 2 * ${kv_heads}) * ${head_dim} + 7) / 8 * 8 + 8")
  math(EXPR out_pitch "(${heads} * ${head_dim} + 7) / 8 * 8 + 16")
  string(APPEND table "${kind}(${name}, ${act}, ${batch}, ${sequence}, ${heads}, ${kv_heads}, ${head_dim}, ${pitch}, ${out_pitch}, ${window}, ${scale})\n")
  foreach(kernel attention_forward attention_backward)
    set(file ${generated}/${name}_${kernel}.cpp)
    file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
@operands@
#define LLMC_MASK @mask@
#include "device/types.h"
namespace llmc {
using Act = @act@;
constexpr int kBatch = @batch@, kSequence = @sequence@, kHeads = @heads@, kKvHeads = @kv_heads@, kHeadDim = @head_dim@;
constexpr int kPitch = @pitch@, kOutPitch = @out_pitch@, kLanes = 1;
constexpr bool kBounded = @bounded@;
constexpr float kScale = @scale@;
}
#define LLMC_PARAMS_GIVEN
#define @kernel@ @kernel@_@name@
#include "@PROJECT_SOURCE_DIR@/templates/cpu/@kernel@.cpp"
]])
    list(APPEND sources ${file})
  endforeach()
  # Variants in tiles: by the software model of tiles.h, which runs on every machine, and by the instructions.
  if(act STREQUAL "bf16")
    string(APPEND tiles "${tile_kind}(${name}, ${batch}, ${sequence}, ${heads}, ${kv_heads}, ${head_dim}, ${pitch}, ${out_pitch}, ${window}, ${scale})\n")
    foreach(kernel attention_forward_tiles attention_backward_tiles)
      foreach(model soft hard)
        set(file ${generated}/${name}_${kernel}_${model}.cpp)
        file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
@operands@
#define LLMC_MASK @mask@
#include "device/types.h"
namespace llmc {
constexpr int kBatch = @batch@, kSequence = @sequence@, kHeads = @heads@, kKvHeads = @kv_heads@, kHeadDim = @head_dim@;
constexpr int kPitch = @pitch@, kOutPitch = @out_pitch@, kLanes = 1;
constexpr bool kBounded = @bounded@;
constexpr float kScale = @scale@;
}
#define LLMC_PARAMS_GIVEN
#define @kernel@ @kernel@_@model@_@name@
#include "@PROJECT_SOURCE_DIR@/templates/cpu/@kernel@.cpp"
]])
        list(APPEND ${model}_sources ${file})
      endforeach()
    endforeach()
  endif()
endforeach()
file(CONFIGURE OUTPUT ${generated}/tile_instances.inc CONTENT "${tiles}" @ONLY)
file(CONFIGURE OUTPUT ${generated}/instances.inc CONTENT "${table}" @ONLY)

foreach(kind soft hard)
  set(file ${generated}/multiply_block_${kind}.cpp)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
#include "device/cpu/tiles.h"
namespace llmc {
void multiply_block_@kind@(const float* a, const float* b, float* c) {
  Tiles tiles;
  multiply_block<true>(tiles, {a, 32, 16}, {b, 32, 16 * 32}, 2, c, 32);
}
}
]])
  list(APPEND ${kind}_sources ${file})
endforeach()

list(APPEND soft_sources tile_counts_test.cpp)
add_executable(test_cpu_attention attention_test.cpp tiles_test.cpp ${sources} ${soft_sources} ${soft_products} ${hard_sources})
# Flags of a trainer: contraction off, the machine's own vectors.
set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS
  "-O3;-march=native;-mprefer-vector-width=512;-fno-math-errno;-ffp-contract=off")
set_source_files_properties(${generated}/narrow_attention_forward.cpp ${generated}/narrow_attention_backward.cpp PROPERTIES
  COMPILE_OPTIONS "-O3;-march=x86-64-v2;-fno-math-errno;-ffp-contract=off")
# The model must not find the instructions it replaces. It rounds equally at any -O; with -O3 each file compiles five
# times as long.
set_source_files_properties(${soft_sources} PROPERTIES COMPILE_OPTIONS
  "-O1;-march=native;-mno-avx512f;-Wno-psabi;-DLLMC_SOFTWARE_TILES;-fno-math-errno;-ffp-contract=off")
set_source_files_properties(${hard_sources} PROPERTIES COMPILE_OPTIONS
  "-O3;-march=sapphirerapids;-mprefer-vector-width=512;-fno-math-errno;-ffp-contract=off")
target_include_directories(test_cpu_attention PRIVATE ${generated} ${PROJECT_SOURCE_DIR}/templates/cpu)
target_link_libraries(test_cpu_attention PRIVATE llmc_device_cpu GTest::gtest_main)
gtest_discover_tests(test_cpu_attention PROPERTIES LABELS unit)
