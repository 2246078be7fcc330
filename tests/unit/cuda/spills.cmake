# Compiles kernels with nvcc and the flags of compiler/emit/flags.h, and fails if ptxas spills a register of one, or makes
# products of warpgroups wait for each other. Kernels that share architectures are one source, because nvcc takes longer
# for its own headers than for a kernel.
#   must_not_spill(WHAT ARCHS [-include PARAMS] KERNEL)   adds a kernel; PARAMS may change after the call
#   check_spills()                                        compiles all, last; leaves their PTX in FOLDER/ptx
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/ptx)

function(must_not_spill what archs)
  get_property(checked GLOBAL PROPERTY spills_checked)
  if(checked)
    message(FATAL_ERROR "${what} comes after check_spills()")
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 given "" "-include" "")
  set(kernel ${given_UNPARSED_ARGUMENTS})
  set(params "")
  if(given_-include)
    file(READ ${given_-include} params)
  endif()
  string(MAKE_C_IDENTIFIER "${archs}" group)
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
  endif()
  set_property(GLOBAL APPEND PROPERTY spill_kernels_${group} ${number})
endfunction()

function(check_spills)
  set_property(GLOBAL PROPERTY spills_checked ON)
  get_property(kernels GLOBAL PROPERTY spill_kernels)
  get_property(groups GLOBAL PROPERTY spill_groups)
  foreach(group IN LISTS groups)
    get_property(archs GLOBAL PROPERTY spill_archs_${group})
    get_property(numbers GLOBAL PROPERTY spill_kernels_${group})
    file(READ ${FOLDER}/${group}.headers headers)
    file(READ ${FOLDER}/${group}.kernels text)
    file(WRITE ${FOLDER}/${group}.cu "#define LLMC_PARAMS_GIVEN\n${headers}${text}")
    set(targets ${archs})
    list(TRANSFORM targets REPLACE "(.+)" "-gencode=arch=compute_\\1,code=sm_\\1")
    execute_process(COMMAND ${NVCC} -std=c++20 -O3 --fmad=false -fatbin ${targets} -Xptxas -v -I${SOURCE}/runtime -keep -keep-dir ${FOLDER}/ptx ${FOLDER}/${group}.cu
      -o ${FOLDER}/${group}.fatbin RESULT_VARIABLE status OUTPUT_VARIABLE report ERROR_VARIABLE report)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "${report}")
    endif()
    if(report MATCHES "[^\n]*wgmma[^\n]*serialized[^\n]*")
      message(FATAL_ERROR "${CMAKE_MATCH_0}")
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
