# The fuzzers of safetensors headers and of the index of several such files; built by Clang's libFuzzer, whatever compiler builds the rest.
find_program(LLMC_CLANGXX clang++-19)
if(LLMC_CLANGXX)
  set(safetensors_fuzzer ${CMAKE_CURRENT_BINARY_DIR}/fuzz_safetensors)
  set(safetensors_runtime ${CMAKE_CURRENT_LIST_DIR}/../../runtime)
  add_custom_command(OUTPUT ${safetensors_fuzzer}
    COMMAND ${LLMC_CLANGXX} -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
            -I${safetensors_runtime}
            ${CMAKE_CURRENT_LIST_DIR}/safetensors_fuzzer.cpp ${safetensors_runtime}/checkpoint/safetensors_header.cpp
            -o ${safetensors_fuzzer}
    DEPENDS ${CMAKE_CURRENT_LIST_DIR}/safetensors_fuzzer.cpp ${safetensors_runtime}/checkpoint/safetensors_header.cpp
            ${safetensors_runtime}/checkpoint/safetensors_header.h
    VERBATIM)
  add_custom_target(build_fuzz_safetensors ALL DEPENDS ${safetensors_fuzzer})
  # Inputs found on the way go to the build folder, the first directory given.
  set(safetensors_found ${CMAKE_CURRENT_BINARY_DIR}/safetensors_found)
  file(MAKE_DIRECTORY ${safetensors_found})
  add_test(NAME fuzz_safetensors
    COMMAND ${safetensors_fuzzer} -runs=20000 -max_len=4096 -rss_limit_mb=512 -timeout=5 -seed=1
            -dict=${CMAKE_CURRENT_LIST_DIR}/safetensors.dict
            ${safetensors_found} ${CMAKE_CURRENT_LIST_DIR}/safetensors_corpus)

  set(index_fuzzer ${CMAKE_CURRENT_BINARY_DIR}/fuzz_index)
  set(index_sources ${CMAKE_CURRENT_LIST_DIR}/index_fuzzer.cpp ${safetensors_runtime}/checkpoint/model_index.cpp)
  add_custom_command(OUTPUT ${index_fuzzer}
    COMMAND ${LLMC_CLANGXX} -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
            -I${safetensors_runtime} ${index_sources} -o ${index_fuzzer}
    DEPENDS ${index_sources} ${safetensors_runtime}/checkpoint/model_index.h
    VERBATIM)
  add_custom_target(build_fuzz_index ALL DEPENDS ${index_fuzzer})
  set(index_found ${CMAKE_CURRENT_BINARY_DIR}/index_found)
  file(MAKE_DIRECTORY ${index_found})
  add_test(NAME fuzz_index
    COMMAND ${index_fuzzer} -runs=50000 -max_len=4096 -rss_limit_mb=512 -timeout=5 -seed=1
            -dict=${CMAKE_CURRENT_LIST_DIR}/index.dict ${index_found} ${CMAKE_CURRENT_LIST_DIR}/index_corpus)
endif()
