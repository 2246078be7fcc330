# Looks for the CUDA toolkit in the folder that includes this: its targets are not visible outside.
# CMake 3.25 warns projects that ask for it of nvToolsExt, and fails where there is none, as in CUDA 13.
set(asked_for ${CMAKE_MINIMUM_REQUIRED_VERSION})
if(CMAKE_VERSION VERSION_LESS 3.26)
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
endif()
find_package(CUDAToolkit QUIET)
set(CMAKE_MINIMUM_REQUIRED_VERSION ${asked_for})
