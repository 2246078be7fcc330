# Creates kernel instances for tests on GPUs, as written by llmc's --style=include. Those of one template are compiled
# together, because nvcc takes longer for headers than for a kernel.
#   cuda_instance(OUT TEMPLATE SUFFIX PARAMS...)   adds one
#   cuda_sources(OUT)                              last; replaces the list by the sources to compile

# Appends templates/<template>.cu with the name <kernel>_<suffix> and params ("using Act = bf16", "int kCols = 300") to
# the list `out`. A param "operands , type name" adds operands, "mask EXPRESSION"
# defines LLMC_MASK. Its namespace is llmc::of_<kernel>_<suffix> (instance.h), because its params have the names of
# another's.
function(cuda_instance out template suffix)
  set(params)
  set(operands)
  set(mask "{kSequence, 0}")
  foreach(param IN LISTS ARGN)
    if(param MATCHES "^operands (.*)$")
      set(operands "${CMAKE_MATCH_1}")
    elseif(param MATCHES "^mask (.*)$")
      set(mask "${CMAKE_MATCH_1}")
    elseif(param MATCHES "^using ")
      string(APPEND params "${param};\n")
    else()
      string(APPEND params "constexpr ${param};\n")
    endif()
  endforeach()
  get_filename_component(kernel ${template} NAME)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/instances/${template}/${suffix}.h)
  file(CONFIGURE OUTPUT ${file} CONTENT "#undef LLMC_FURTHER_OPERANDS
#define LLMC_FURTHER_OPERANDS ${operands}
#undef LLMC_MASK
#define LLMC_MASK ${mask}
#define llmc llmc::of_${kernel}_${suffix}
#define ${kernel} ${kernel}_${suffix}
namespace llmc {
${params}}  // namespace llmc
#include \"templates/${template}.cu\"
#undef ${kernel}
#undef llmc
" @ONLY)
  set(${out} ${${out}} ${file} PARENT_SCOPE)
endfunction()

set(cuda_instances_of_a_source 6)
set(cuda_templates ${CMAKE_CURRENT_LIST_DIR}/../../../templates)

function(cuda_sources out)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/instances)
  set(sources)
  set(templates)
  foreach(file IN LISTS ${out})
    file(RELATIVE_PATH template ${folder} ${file})
    get_filename_component(template ${template} DIRECTORY)
    list(APPEND templates ${template})
    string(MAKE_C_IDENTIFIER ${template} name)
    list(APPEND of_${name} ${file})
  endforeach()
  list(REMOVE_DUPLICATES templates)
  foreach(template IN LISTS templates)
    string(MAKE_C_IDENTIFIER ${template} name)
    # The template's own headers come first, outside of the instances' namespaces.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${cuda_templates}/${template}.cu)
    file(STRINGS ${cuda_templates}/${template}.cu headers REGEX "^#include \"device/")
    list(JOIN headers "\n" headers)
    set(number 0)
    while(of_${name})
      list(SUBLIST of_${name} 0 ${cuda_instances_of_a_source} some)
      list(REMOVE_ITEM of_${name} ${some})
      list(TRANSFORM some REPLACE "(.+)" "#include \"\\1\"")
      list(JOIN some "\n" some)
      set(source ${folder}/${out}_${name}_${number}.cu)  # lists of one folder may share a template
      file(CONFIGURE OUTPUT ${source} CONTENT "#define LLMC_PARAMS_GIVEN
#include \"device/types.h\"
${headers}
${some}
" @ONLY)
      list(APPEND sources ${source})
      math(EXPR number "${number} + 1")
    endwhile()
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()
