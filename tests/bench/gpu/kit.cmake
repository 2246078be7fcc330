# Included at the end of a copied bundle's CMakeLists.txt: the trainer once more with clocks in its step, the ceilings, and,
# where GoogleTest's sources travel along, the tests that need a GPU. LLMC_KIT: the folder that has tests/ and third_party/.
#
# Both clocked programs bring a Replay of their own, before the runtime's library is asked for one. `timed` launches each
# kernel itself, by the CPU's Replay, so that events lie between them; `hosted` replays graphs, with a clock around that.
add_library(clocked OBJECT EXCLUDE_FROM_ALL program.cpp texts.S timed/step.cu ${kernels})
set_target_properties(clocked PROPERTIES CUDA_STANDARD 20 CUDA_ARCHITECTURES OFF)
foreach(property COMPILE_OPTIONS INCLUDE_DIRECTORIES)
  get_target_property(value trainer ${property})
  set_target_properties(clocked PROPERTIES ${property} "${value}")
endforeach()
target_link_libraries(clocked PRIVATE llmc_runtime_cuda)
add_executable(timed EXCLUDE_FROM_ALL ${LLMC_RUNTIME}/device/cpu/replay.cpp)
add_executable(hosted EXCLUDE_FROM_ALL timed/replay.cpp)
foreach(program timed hosted)
  set_target_properties(${program} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${program} PRIVATE clocked llmc_runtime_cuda)
endforeach()

add_executable(ceilings EXCLUDE_FROM_ALL ${LLMC_KIT}/tests/bench/gpu/ceilings.cpp)
target_link_libraries(ceilings PRIVATE llmc_math_cuda)

if(EXISTS ${LLMC_KIT}/third_party/googletest/CMakeLists.txt)
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  add_subdirectory(${LLMC_KIT}/third_party/googletest googletest EXCLUDE_FROM_ALL)
  file(GLOB tests ${LLMC_KIT}/tests/unit/cuda/*_gpu_test.cpp)
  add_executable(test_cuda_gpu EXCLUDE_FROM_ALL ${tests})
  target_link_libraries(test_cuda_gpu PRIVATE llmc_math_cuda llmc_comm_nccl gtest_main)
endif()
