# generated/, docs/reference/keys.md and docs/reference/launches.md are outputs of llmc. They are kept in the repository
# so that a review shows the effect of a change on the code. The build fails if they are out of date; the target
# `regenerate` rewrites them.
set(generated_arguments
  -DLLMC=$<TARGET_FILE:llmc> -DSOURCE=${PROJECT_SOURCE_DIR} -DBUILD=${PROJECT_BINARY_DIR}
  "-DRUNS=quickstart,llama-1b" -P ${PROJECT_SOURCE_DIR}/cmake/CompareGenerated.cmake)

file(GLOB_RECURSE generated_inputs CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/templates/* ${PROJECT_SOURCE_DIR}/runtime/device/*.h ${PROJECT_SOURCE_DIR}/generated/*)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/generated.stamp
  COMMAND ${CMAKE_COMMAND} -DMODE=compare ${generated_arguments}
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/generated.stamp
  DEPENDS llmc ${generated_inputs} ${PROJECT_SOURCE_DIR}/specs/quickstart.yaml ${PROJECT_SOURCE_DIR}/specs/llama-1b.yaml
    ${PROJECT_SOURCE_DIR}/docs/reference/keys.md ${PROJECT_SOURCE_DIR}/docs/reference/launches.md
    ${PROJECT_SOURCE_DIR}/cmake/CompareGenerated.cmake
  COMMENT "Comparing generated/ with what llmc emits" VERBATIM)
add_custom_target(check_generated ALL DEPENDS ${PROJECT_BINARY_DIR}/generated.stamp)

add_custom_target(regenerate
  COMMAND ${CMAKE_COMMAND} -DMODE=write ${generated_arguments}
  DEPENDS llmc COMMENT "Writing generated/ and the pages of docs/reference that llmc prints" VERBATIM)
