# bench_math: the quick-start run's GEMMs and CPU attention. include()d by tests/CMakeLists.txt.
find_package(benchmark REQUIRED)
set(bench_sources)
foreach(act float bf16)
  set(name fp32)
  if(act STREQUAL "bf16")
    set(name bf16)
  endif()
  foreach(kernel attention_forward attention_backward)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/bench/${name}_${kernel}.cpp)
    file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
#include "device/types.h"
namespace llmc {
using Act = @act@;
constexpr int kBatch = 8, kSequence = 256, kHeads = 8, kKvHeads = 4, kHeadDim = 32;
constexpr int kPitch = 512, kOutPitch = 256, kLanes = 1;
constexpr float kScale = 0.176776695f;
}
#define LLMC_PARAMS_GIVEN
#define @kernel@ @kernel@_@name@
#include "@PROJECT_SOURCE_DIR@/templates/cpu/@kernel@.cpp"
]])
    list(APPEND bench_sources ${file})
  endforeach()
endforeach()
foreach(kernel attention_forward_tiles attention_backward_tiles)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/bench/${kernel}.cpp)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
namespace llmc {
constexpr int kBatch = 8, kSequence = 256, kHeads = 8, kKvHeads = 4, kHeadDim = 32;
constexpr int kPitch = 512, kOutPitch = 256, kLanes = 1;
constexpr float kScale = 0.176776695f;
}
#define LLMC_PARAMS_GIVEN
#include "@PROJECT_SOURCE_DIR@/templates/cpu/@kernel@.cpp"
]])
  list(APPEND tile_sources ${file})
endforeach()
list(APPEND tile_sources ${CMAKE_CURRENT_LIST_DIR}/tile_registers.cpp)
set_source_files_properties(${tile_sources} PROPERTIES COMPILE_OPTIONS
  "-O3;-march=sapphirerapids;-mprefer-vector-width=512;-fno-math-errno;-ffp-contract=off")
set_source_files_properties(${bench_sources} PROPERTIES COMPILE_OPTIONS
  "-O3;-march=native;-mprefer-vector-width=512;-fno-math-errno;-ffp-contract=off")
add_executable(bench_math ${CMAKE_CURRENT_LIST_DIR}/gemm.cpp ${bench_sources} ${tile_sources})
target_include_directories(bench_math PRIVATE ${PROJECT_SOURCE_DIR}/templates/cpu)
target_link_libraries(bench_math PRIVATE llmc_math_cpu benchmark::benchmark)
