# Creates kernel instances for tests and benchmarks: params, a unique name, and an #include of the template, as written
# by llmc's --style=include.
set(LLMC_KERNEL_FLAGS -O3 -fopenmp -march=native -mprefer-vector-width=512 -fno-math-errno -ffp-contract=off)

# Adds the kernel <template>_<suffix> to `target`; the other arguments are params: "Act=bf16" "kRows=13". "operands=,
# type name" adds operands.
function(llmc_kernel target template suffix)
  set(operands)
  set(text "#include \"device/types.h\"\n\n#define LLMC_PARAMS_GIVEN\nnamespace llmc {\n")
  foreach(param IN LISTS ARGN)
    string(REGEX MATCH "^([A-Za-z0-9]+)=(.*)$" _ "${param}")
    set(name "${CMAKE_MATCH_1}")
    set(value "${CMAKE_MATCH_2}")
    if(name STREQUAL "operands")
      set(operands "#define LLMC_FURTHER_OPERANDS ${value}\n")
    elseif(name MATCHES "^[A-Z]")  # a type: numbers have names kName
      string(APPEND text "using ${name} = ${value};\n")
    else()
      string(APPEND text "constexpr auto ${name} = ${value};\n")
    endif()
  endforeach()
  string(APPEND text "constexpr int kLanes = 1, kCluster = 1;\n}  // namespace llmc\n#define ${template} ${template}_${suffix}\n"
                     "#include \"templates/${template}.cu\"\n")
  set(file "${CMAKE_CURRENT_BINARY_DIR}/${template}_${suffix}.cpp")
  file(CONFIGURE OUTPUT "${file}" CONTENT "${operands}${text}" @ONLY)
  target_sources(${target} PRIVATE "${file}")
  set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS "${LLMC_KERNEL_FLAGS}")
endfunction()
