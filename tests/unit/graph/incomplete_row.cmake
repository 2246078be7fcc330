# Checks that a row missing a member without a safe default does not compile.
file(MAKE_DIRECTORY ${FOLDER})

function(compile what source expected)
  execute_process(COMMAND ${CXX} -std=c++20 -fsyntax-only -I${FOLDER} -I${SOURCE} -I${SOURCE}/runtime ${source}
                  RESULT_VARIABLE status ERROR_VARIABLE errors OUTPUT_QUIET)
  if(expected STREQUAL "" AND NOT status EQUAL 0)
    message(FATAL_ERROR "${what} does not compile:\n${errors}")
  elseif(NOT expected STREQUAL "" AND (status EQUAL 0 OR NOT errors MATCHES "${expected}"))
    message(FATAL_ERROR "${what}: expected `${expected}`, got:\n${errors}")
  endif()
endfunction()

compile("ops/rope.cpp" ${SOURCE}/compiler/ops/rope.cpp "")

# Removes each such member in turn.
file(READ ${SOURCE}/compiler/ops/rope.cpp row)
foreach(member signature exact gradient model_flops work)
  string(REGEX REPLACE "[.]${member} = [a-zA-Z_]+[,}]" "" less "${row}")
  if(member STREQUAL "work")
    string(REGEX REPLACE "[.]work = work};" "};" less "${row}")
  endif()
  file(WRITE ${FOLDER}/rope.cpp "${less}")
  compile("a row without its ${member}" ${FOLDER}/rope.cpp "deleted function")
endforeach()
