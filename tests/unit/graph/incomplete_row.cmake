# An op's row that leaves out a member, and a kind of op without a row, do not compile.
file(MAKE_DIRECTORY ${FOLDER}/compiler/graph)

function(compile what source expected)
  execute_process(COMMAND ${CXX} -std=c++20 -fsyntax-only -I${FOLDER} -I${SOURCE} -I${SOURCE}/runtime ${source}
                  RESULT_VARIABLE status ERROR_VARIABLE errors OUTPUT_QUIET)
  if(expected STREQUAL "" AND NOT status EQUAL 0)
    message(FATAL_ERROR "${what} does not compile:\n${errors}")
  elseif(NOT expected STREQUAL "" AND (status EQUAL 0 OR NOT errors MATCHES "${expected}"))
    message(FATAL_ERROR "${what}: expected `${expected}`, got:\n${errors}")
  endif()
endfunction()

file(REMOVE ${FOLDER}/compiler/graph/graph.h)
compile("ops/rope.cpp" ${SOURCE}/compiler/ops/rope.cpp "")

# Each member refuses to be left out; one of them, to see that it does.
file(STRINGS ${SOURCE}/compiler/ops/op.h members REGEX "^  Stated<.*;$")
file(READ ${SOURCE}/compiler/ops/op.h header)
string(REPLACE ";" "|" header "${header}")
string(REGEX MATCH "struct Row {[^}]*}" row "${header}")
string(REGEX MATCHALL "[|]\n" all "${row}")
list(LENGTH members stated)
list(LENGTH all of)
if(stated LESS 10 OR NOT stated EQUAL of)
  message(FATAL_ERROR "${stated} of ${of} members of Row are Stated")
endif()
file(READ ${SOURCE}/compiler/ops/rope.cpp row)
string(REPLACE ".gradient = gradient," "" less "${row}")
file(WRITE ${FOLDER}/rope.cpp "${less}")
compile("a row without its gradient" ${FOLDER}/rope.cpp "deleted function")

file(READ ${SOURCE}/compiler/graph/graph.h kinds)
string(REPLACE "sum_results," "sum_results, another," kinds "${kinds}")
string(REPLACE "OpKind::sum_results) + 1" "OpKind::another) + 1" kinds "${kinds}")
file(WRITE ${FOLDER}/compiler/graph/graph.h "${kinds}")
compile("a kind without a row" ${SOURCE}/compiler/ops/op.cpp "a row for each OpKind")
