# Compiles kernels with nvcc and fails if ptxas spills a register of one. Kernels that share architectures and flags are
# one source, because nvcc takes longer for its own headers than for a kernel.
#   must_not_spill(WHAT ARCHS FLAGS... [-include PARAMS] KERNEL)   adds a kernel; PARAMS may change after the call
#   check_spills()                                                 compiles all; leaves their PTX in FOLDER/ptx
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/ptx)

function(must_not_spill what archs)
  set(flags ${ARGN})
  list(POP_BACK flags kernel)
  set(params "")
  list(FIND flags -include at)
  if(at GREATER -1)
    math(EXPR of "${at} + 1")
    list(GET flags ${of} file)
    list(REMOVE_AT flags ${of} ${at})
    file(READ ${file} params)
  endif()
  string(MAKE_C_IDENTIFIER "${archs}_${flags}" group)
  get_property(number GLOBAL PROPERTY spill_kernels)
  list(LENGTH number number)
  get_filename_component(name ${kernel} NAME_WE)

  # A namespace for each kernel: its params have the names of another's.
  file(STRINGS ${kernel} headers REGEX "^#include \"device/")
  list(JOIN headers "\n" headers)
  file(APPEND ${FOLDER}/${group}.headers "${headers}\n")
  file(APPEND ${FOLDER}/${group}.kernels "#define llmc llmc::of_${number}
#define ${name} ${name}_${number}_
${params}
#include \"${kernel}\"
#undef ${name}
#undef llmc
")
  set_property(GLOBAL APPEND PROPERTY spill_kernels "${what}")
  get_property(groups GLOBAL PROPERTY spill_groups)
  if(NOT group IN_LIST groups)
    set_property(GLOBAL APPEND PROPERTY spill_groups ${group})
    set_property(GLOBAL PROPERTY spill_archs_${group} ${archs})
    set_property(GLOBAL PROPERTY spill_flags_${group} ${flags})
  endif()
  set_property(GLOBAL APPEND PROPERTY spill_kernels_${group} ${number})
endfunction()

function(check_spills)
  get_property(kernels GLOBAL PROPERTY spill_kernels)
  get_property(groups GLOBAL PROPERTY spill_groups)
  foreach(group IN LISTS groups)
    get_property(archs GLOBAL PROPERTY spill_archs_${group})
    get_property(flags GLOBAL PROPERTY spill_flags_${group})
    get_property(numbers GLOBAL PROPERTY spill_kernels_${group})
    file(READ ${FOLDER}/${group}.headers headers)
    file(READ ${FOLDER}/${group}.kernels text)
    file(WRITE ${FOLDER}/${group}.cu "#define LLMC_PARAMS_GIVEN\n${headers}${text}")
    set(targets ${archs})
    list(TRANSFORM targets REPLACE "(.+)" "-gencode=arch=compute_\\1,code=sm_\\1")
    execute_process(COMMAND ${NVCC} -std=c++20 -O3 -fatbin ${targets} -Xptxas -v -I${SOURCE}/runtime ${flags} -keep -keep-dir ${FOLDER}/ptx ${FOLDER}/${group}.cu
      -o ${FOLDER}/${group}.fatbin RESULT_VARIABLE status OUTPUT_VARIABLE report ERROR_VARIABLE report)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "${report}")
    endif()
    foreach(number IN LISTS numbers)
      list(GET kernels ${number} what)
      foreach(arch IN LISTS archs)
        if(NOT report MATCHES "_${number}_E[^']*' for 'sm_${arch}'[^']*Function properties for [^\n]*\n *[0-9]+ bytes stack frame, ([0-9]+) bytes spill stores")
          message(FATAL_ERROR "no report on ${what}, sm_${arch}:\n${report}")
        endif()
        message("${what}, sm_${arch}: ${CMAKE_MATCH_1} bytes spill stores")
        if(NOT CMAKE_MATCH_1 STREQUAL "0")
          message(FATAL_ERROR "${what} spills on sm_${arch}")
        endif()
      endforeach()
    endforeach()
  endforeach()
endfunction()
