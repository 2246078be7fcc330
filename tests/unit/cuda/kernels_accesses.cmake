# Reads the PTX for sm_90a that kernels_spills.cmake leaves of the kernels of generated/llama-1b and of a few others. Fails if rows of data are not
# read and written 16 bytes at a time, or if a listed kernel reads part of a row after its lanes have synchronised.
# ptxas keeps the width of an access; checking SASS would need nvdisasm as well (tests/bench/sass.py).
# cmake -DSOURCE= -DPTX= -P kernels_accesses.cmake
cmake_minimum_required(VERSION 3.25)

# KERNEL LOADS STORES: number of global accesses that may be narrower, with the reason.
set(narrow
  # Rows: values that exist once per row and are shared by its lanes.
  "embedding_backward 5 0"  # the order of positions, a run's ends and token
  "embedding_forward 1 0"   # the token
  "gather_rows 1 0"         # the row's number
  "rms_norm_backward 1 0"   # rstd
  "rms_norm_backward_residual_recompute 1 0"
  "rms_norm_forward 0 1"    # rstd
  "rope 0 0"
  "rope_inverse 0 0"
  "swiglu_backward_recompute 0 0"
  "swiglu_forward 0 0"
  # Rows are copied by cp.async, 16 bytes each. Narrow: the target with its four results, its logit (of 2 bytes) and
  # that logit's gradient.
  "cross_entropy 2 8"
  "cross_entropy_gradient 3 9"
  # One row: the step's scalars and results, and the row's end, whose length is only known at run time.
  "gradient_clip 21 3"
  "loss_sum 8 8"
  # A sum that is added to an existing value.
  "column_reduce_2048 0 0"
  "column_reduce_to_32_2048 0 0"
  # Fragments in registers: pairs of bf16 of 8 rows per warp and of the angles that rotate them, once per block; lse and
  # delta. The loop's tiles are copied by cp.async, 16 bytes each.
  "attention_backward_keys_warpgroups_rotated 64 64"
  "attention_backward_queries_warpgroups_rotated 100 36"
  # Flat parameters by the optimizer's chunk table: the table, the step's scalars, a chunk's sums, and code for the
  # chunk's end. When casting, a lane has 4 elements: 16 bytes of fp32 and 8 of bf16.
  "adamw_copy_norms 55 36"
  "cast_weights 18 10"
  "adamw_split 65 36"
  "lion_split 44 20"
  "muon 55 34"
  "muon_momentum 25 16"
  # Rows: a factor, or a norm.
  "scale_rows 1 0"
  "row_norms 0 1"
  "join_masters 55 32"
  "split_masters 85 36"
  # Codes of the gradient's vectors, 8 bytes a lane; scales of rows, of which 16 are read for the codes of 16 rows, and those
  # of all columns.
  "rms_norm_backward_quantised 20 2"
  "swiglu_backward_quantised 19 3"
  # A block of 256: codes of 8 bits, 8 bytes a lane, two scales, and the chunk's end.
  "adamw_int8 75 38"
  # The token, and ties, a byte a lane.
  "embedding_split 2 0"
  "gradient_norm 18 1"
  # Same with one rule per parameter, once per run; the random numbers take longer than the stores.
  "init_normal 31 32"
  # A few numbers per parameter, at unaligned offsets; 1 MB in all.
  "parameter_norms 89 3")
# Kernels that read (write) no rows; cast_weights writes 8 bytes per lane.
set(without_wide_ld attention_backward_keys_warpgroups_rotated attention_backward_queries_warpgroups_rotated cross_entropy cross_entropy_gradient
  init_normal parameter_norms)
set(without_wide_st attention_backward_keys_warpgroups_rotated attention_backward_queries_warpgroups_rotated
  cast_weights cross_entropy gradient_clip gradient_norm loss_sum parameter_norms row_norms)

# Kernels that read a whole row before their lanes synchronise, so that a row waits for memory once.
set(reads_first cross_entropy cross_entropy_gradient rms_norm_backward rms_norm_backward_residual_recompute)

file(GLOB kernels ${SOURCE}/generated/llama-1b/kernels/*.cu)
if(NOT kernels)
  message(FATAL_ERROR "no kernels in ${SOURCE}/generated/llama-1b/kernels")
endif()
file(GLOB files ${PTX}/*_90a*.ptx)
list(FILTER files EXCLUDE REGEX "compute_([^9]|9[^0])[^/]*$")
set(all_ptx "")
foreach(file IN LISTS files)
  file(READ ${file} ptx)
  string(APPEND all_ptx "${ptx}")
endforeach()
string(REPLACE ";" "\n" all_ptx "${all_ptx}")  # else CMake's lists split there

# Sets `ptx` to the code of the kernel that kernels_spills.cmake has added as number `number`; of others, the first one.
macro(read_ptx name number)
  if(NOT all_ptx MATCHES "[.]entry [^ (]*[0-9]${name}_${number}_E")
    message(FATAL_ERROR "no PTX of ${name} in ${PTX}")
  endif()
  string(FIND "${all_ptx}" "${CMAKE_MATCH_0}" begin)
  string(SUBSTRING "${all_ptx}" ${begin} -1 ptx)
  string(FIND "${ptx}" ".visible .entry" end)
  string(SUBSTRING "${ptx}" 0 ${end} ptx)
endmacro()

set(number 0)
list(LENGTH kernels of_the_run)
set(others adamw_int8 adamw_split lion_split muon muon_momentum scale_rows row_norms embedding_split join_masters split_masters rms_norm_backward_quantised
  swiglu_backward_quantised)
include(${PTX}/numbers.cmake)  # of kernels of which there are several
foreach(kernel IN LISTS kernels others)
  get_filename_component(name ${kernel} NAME_WE)
  set(row ${narrow})
  list(FILTER row INCLUDE REGEX "^${name} ")
  if(NOT row MATCHES "^${name} ([0-9]+) ([0-9]+)$")
    message(FATAL_ERROR "kernels_accesses.cmake does not say how ${name} reads and writes")
  endif()
  set(allowed_ld ${CMAKE_MATCH_1})
  set(allowed_st ${CMAKE_MATCH_2})
  if(number LESS of_the_run)
    read_ptx(${name} ${number})
  else()
    if(NOT DEFINED number_of_${name})
      set(number_of_${name} "[0-9]+")
    endif()
    read_ptx(${name} ${number_of_${name}})
  endif()
  math(EXPR number "${number} + 1")
  foreach(kind ld st)
    string(REGEX MATCHALL "[ \t]${kind}\\.global[.:a-z0-9_]*" all "${ptx}")
    set(narrower ${all})
    list(FILTER narrower EXCLUDE REGEX "\\.v4\\.[a-z]32$|\\.v2\\.[a-z]64$")
    list(LENGTH all all)
    list(LENGTH narrower narrower)
    message("${name}: ${all} ${kind}, ${narrower} narrower than 16 bytes")
    if(narrower GREATER allowed_${kind})
      message(FATAL_ERROR "kernels_accesses.cmake allows ${allowed_${kind}} narrower ones")
    elseif(narrower EQUAL all AND NOT name IN_LIST without_wide_${kind})
      message(FATAL_ERROR "none has 16 bytes")
    endif()
  endforeach()
  if(name IN_LIST reads_first)
    if(NOT ptx MATCHES "(bar\\.sync|barrier\\.cluster\\.arrive\\.release)(.*)")
      message(FATAL_ERROR "the lanes of ${name} never meet")
    endif()
    if(CMAKE_MATCH_2 MATCHES "ld\\.global[.a-z0-9]*\\.v4|cp\\.async\\.cg")
      message(FATAL_ERROR "${name} reads a part of a row after its lanes have met")
    endif()
  endif()
  # Copies this row's four vectors first, then those of the next one.
  if(name MATCHES "^cross_entropy")
    string(REGEX MATCHALL "cp\\.async\\.cg\\.shared\\.global" copies "${ptx}")
    list(LENGTH copies copies)
    if(NOT copies EQUAL 8)
      message(FATAL_ERROR "${name} has ${copies} copies to shared memory and not 8")
    endif()
  endif()
  # Reads 32 rows of partial sums without a loop, so that ptxas starts all reads before the first addition.
  if(name MATCHES "^column_reduce")
    string(REGEX MATCHALL "ld\\.global\\.nc[.a-z0-9]*\\.v4" reads "${ptx}")
    list(LENGTH reads reads)
    if(NOT reads EQUAL 32)
      message(FATAL_ERROR "${name} has ${reads} reads and not 32: it waits for memory once for each turn of a loop")
    endif()
  endif()
endforeach()
