# Ends the configuration unless oneDNN has one of the two interfaces that gemm.cpp uses: that of version 2, or that of
# version 3 with attributes of 3.4. Headers that are not found may still be where the compiler looks.
find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl_version.h)
if(ONEDNN_INCLUDE_DIR)
  file(STRINGS ${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h onednn REGEX "define DNNL_VERSION_(MAJOR|MINOR) ")
  string(REGEX REPLACE "[^0-9;]" "" onednn "${onednn}")
  list(JOIN onednn "." onednn)
  if(NOT (onednn MATCHES "^2\\." OR (onednn MATCHES "^3\\." AND onednn VERSION_GREATER_EQUAL 3.4)))
    message(FATAL_ERROR "oneDNN ${onednn} in ${ONEDNN_INCLUDE_DIR} has another interface than versions 2 and 3.4 to 3.x, "
      "one of which llmc needs. Debian 12's libdnnl-dev is 2.6, Debian 13's is 3.7")
  endif()
endif()
