# Ends the configuration if oneDNN is not version 2, whose interface gemm.cpp uses. Headers that are not found may still
# be where the compiler looks.
find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl_version.h)
if(ONEDNN_INCLUDE_DIR)
  file(STRINGS ${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h onednn REGEX "define DNNL_VERSION_(MAJOR|MINOR) ")
  string(REGEX REPLACE "[^0-9;]" "" onednn "${onednn}")
  list(JOIN onednn "." onednn)
  if(NOT onednn MATCHES "^2\\.")
    message(FATAL_ERROR "oneDNN ${onednn} in ${ONEDNN_INCLUDE_DIR} has another interface than version 2, which llmc "
      "needs. Debian 12's libdnnl-dev is version 2")
  endif()
endif()
