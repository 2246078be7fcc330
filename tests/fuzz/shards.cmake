# Fuzzers of token shards, tokenizer models and tokenizer.json; built by clang++-19, the project's other code stays with g++.
find_program(FUZZ_CLANG clang++-19)
if(FUZZ_CLANG)
  set(data_source ${PROJECT_SOURCE_DIR}/runtime/data)
  set(fuzz_flags -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
      -I${PROJECT_SOURCE_DIR}/runtime)
  set(shards_sources ${CMAKE_CURRENT_LIST_DIR}/shards_fuzzer.cpp ${data_source}/shard_format.cpp)
  set(tokenizer_sources ${CMAKE_CURRENT_LIST_DIR}/shards_tokenizer_fuzzer.cpp ${data_source}/tokenizer.cpp
      ${data_source}/tokenizer_json.cpp ${data_source}/tokenizer_model.cpp ${data_source}/utf8.cpp ${data_source}/mapped_file.cpp)
  set(tokenizer_json_sources ${CMAKE_CURRENT_LIST_DIR}/tokenizer_json_fuzzer.cpp ${data_source}/tokenizer_json.cpp
      ${data_source}/utf8.cpp)
  set(tokenizer_json_dictionary -dict=${CMAKE_CURRENT_LIST_DIR}/tokenizer_json.dict)
  foreach(name shards tokenizer tokenizer_json)
    add_custom_command(
      OUTPUT fuzz_${name}
      COMMAND ${FUZZ_CLANG} ${fuzz_flags} ${${name}_sources} -lsentencepiece -lfmt -o fuzz_${name}
      DEPENDS ${${name}_sources} ${data_source}/shard_format.h ${data_source}/tokenizer.h ${data_source}/tokenizer_json.h
      VERBATIM)
    add_custom_target(build_fuzz_${name} ALL DEPENDS fuzz_${name})
    # libFuzzer writes what it finds into the first folder, so the kept corpus stands second.
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name}_found)
    add_test(NAME fuzz_${name}
      COMMAND ${CMAKE_CURRENT_BINARY_DIR}/fuzz_${name} -seed=1 -rss_limit_mb=512 -timeout=10 -max_len=8192 ${${name}_dictionary}
        ${CMAKE_CURRENT_BINARY_DIR}/${name}_found ${CMAKE_CURRENT_LIST_DIR}/shards_corpus/${name}
        -runs=$<IF:$<STREQUAL:${name},shards>,50000,20000>)
  endforeach()
endif()
