# Finds the CUDA toolkit for the including folder, because its targets are not visible elsewhere. CMake 3.25 warns
# projects that require it of nvToolsExt, and fails without it, as in CUDA 13.
set(asked_for ${CMAKE_MINIMUM_REQUIRED_VERSION})
if(CMAKE_VERSION VERSION_LESS 3.26)
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
endif()
find_package(CUDAToolkit QUIET)
set(CMAKE_MINIMUM_REQUIRED_VERSION ${asked_for})
