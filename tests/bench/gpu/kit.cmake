# Included at the end of the CMakeLists.txt of the copied bundle `run`, which sets language options and builds the
# runtime: the programs of all bundles, the kit's own, and the tests that need a GPU. build.py writes
# kit-programs.cmake, which calls kit_objects and kit_program. KIT_ROOT: the folder with tests/ and third_party/;
# KIT_BIN: folder for programs.

# Programs with their own Replay must not link the runtime's object of it, so it is compiled separately.
set_target_properties(llmc_device_cuda PROPERTIES UNITY_BUILD OFF)

# Compiles objects as a bundle's own CMakeLists.txt does: kernels shared by several bundles are compiled once.
function(kit_objects name folder)
  cmake_parse_arguments(kit "" "" "OPTIONS;SOURCES" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${kit_SOURCES})
  set_target_properties(${name} PROPERTIES CUDA_STANDARD 20 CUDA_ARCHITECTURES OFF)
  target_compile_options(${name} PRIVATE ${kit_OPTIONS})
  target_include_directories(${name} PRIVATE "${folder}" ${LLMC_RUNTIME} ${LLMC_RUNTIME}/..)
  target_link_libraries(${name} PRIVATE llmc_runtime_cuda)
  set_source_files_properties("${folder}/texts.S" PROPERTIES COMPILE_OPTIONS "-Xassembler;-I${folder}")
endfunction()

# SOURCES: the program's own Replay, linked before the runtime's library.
function(kit_program bundle program)
  cmake_parse_arguments(kit "" "" "OBJECTS;SOURCES" ${ARGN})
  set(objects)
  foreach(name IN LISTS kit_OBJECTS)
    list(APPEND objects $<TARGET_OBJECTS:${name}>)
  endforeach()
  add_executable(${bundle}-${program} EXCLUDE_FROM_ALL ${kit_SOURCES} ${objects})
  set_target_properties(${bundle}-${program} PROPERTIES LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${KIT_BIN}/${bundle}
    OUTPUT_NAME ${program})
  target_link_libraries(${bundle}-${program} PRIVATE llmc_runtime_cuda)
endfunction()

include(${CMAKE_CURRENT_SOURCE_DIR}/kit-programs.cmake)

foreach(program ceilings rates heads collectives)
  add_executable(run-${program} EXCLUDE_FROM_ALL ${KIT_ROOT}/tests/bench/gpu/${program}.cpp)
  set_target_properties(run-${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${KIT_BIN}/run OUTPUT_NAME ${program})
endforeach()
target_link_libraries(run-ceilings PRIVATE llmc_math_cuda llmc_values)
kit_objects(copy-until ${KIT_ROOT} OPTIONS "SHELL:-gencode arch=compute_90a,code=sm_90a" SOURCES ${KIT_ROOT}/tests/bench/gpu/copy_until.cu)
target_sources(run-rates PRIVATE $<TARGET_OBJECTS:copy-until>)
target_link_libraries(run-rates PRIVATE llmc_math_cuda)
include(${KIT_ROOT}/tests/unit/cuda/portable_attention.cmake)
include(${KIT_ROOT}/tests/bench/gpu/heads.cmake)
heads_instances(heads)
cuda_sources(heads)
kit_objects(heads-kernels ${KIT_ROOT} OPTIONS "SHELL:-gencode arch=compute_90a,code=sm_90a" SOURCES ${heads})
target_sources(run-heads PRIVATE $<TARGET_OBJECTS:heads-kernels>)
target_link_libraries(run-heads PRIVATE llmc_math_cuda)
target_include_directories(run-heads PRIVATE ${KIT_ROOT})
target_include_directories(run-collectives SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
target_link_libraries(run-collectives PRIVATE llmc_comm_nccl fmt::fmt)

if(EXISTS ${KIT_ROOT}/third_party/googletest/CMakeLists.txt)
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  add_subdirectory(${KIT_ROOT}/third_party/googletest googletest EXCLUDE_FROM_ALL)
  file(GLOB tests ${KIT_ROOT}/tests/unit/cuda/*_gpu_test.cpp)
  # llmc's own attention, cross-entropy over clusters, and codes that are transposed: kernels alone, for racecheck too.
  include(${KIT_ROOT}/tests/unit/cuda/cross_entropy.cmake)
  include(${KIT_ROOT}/tests/unit/cuda/transposed_codes.cmake)
  portable_attention_instances(instances)
  warpgroup_attention_instances(instances)
  scalar_attention_instances(instances)
  cross_entropy_instances(instances)
  transposed_codes_instances(instances)
  cuda_sources(instances)
  kit_objects(tests-kernels ${KIT_ROOT} OPTIONS "SHELL:-gencode arch=compute_90a,code=sm_90a" SOURCES ${instances})
  add_executable(run-tests EXCLUDE_FROM_ALL ${tests} ${KIT_ROOT}/tests/unit/cuda/portable_attention_test.cpp
    ${KIT_ROOT}/tests/unit/cuda/scalar_attention_test.cpp ${KIT_ROOT}/tests/unit/cuda/cross_entropy_test.cpp
    ${KIT_ROOT}/tests/unit/cuda/transposed_codes_test.cpp $<TARGET_OBJECTS:tests-kernels>)
  set_target_properties(run-tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${KIT_BIN}/run OUTPUT_NAME tests)
  target_link_libraries(run-tests PRIVATE llmc_math_cuda llmc_comm_nccl gtest_main)
endif()
