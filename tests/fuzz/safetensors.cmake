# The fuzzer of safetensors headers; built by Clang's libFuzzer, whatever compiler builds the rest.
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
endif()
