# Finds the headers of cudnn-frontend: sets CUDNN_FRONTEND_INCLUDE_DIR, or CUDNN_FRONTEND_PROBLEM if there are none.
#
# Searches CUDNN_FRONTEND_INCLUDE_DIR, the include folders of the system and the toolkit, and Python's package
# nvidia-cudnn-frontend. Otherwise it downloads its wheel, which contains the headers, once into the build folder, with
# a message; -DLLMC_DOWNLOAD=OFF forbids that.
set(cudnn_frontend_version 1.32.0)  # version to download; any 1.x from 1.13 on works
find_program(LLMC_PYTHON3 python3)

set(hints ${CUDAToolkit_INCLUDE_DIRS})
if(LLMC_PYTHON3)
  execute_process(COMMAND ${LLMC_PYTHON3} -c "import sysconfig; p = sysconfig.get_paths(); print(p['purelib'] + '/include;' + p['platlib'] + '/include')"
    OUTPUT_VARIABLE packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  list(APPEND hints ${packages})
endif()
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${hints})
set(too_old)
if(EXISTS "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h")
  file(STRINGS "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h" minor REGEX "define CUDNN_FRONTEND_MINOR_VERSION")
  string(REGEX MATCH "[0-9]+$" minor "${minor}")
  if(minor LESS 13)
    set(too_old "; ${CUDNN_FRONTEND_INCLUDE_DIR} has 1.${minor}, and 1.13 or later is needed")
    unset(CUDNN_FRONTEND_INCLUDE_DIR CACHE)
    unset(CUDNN_FRONTEND_INCLUDE_DIR)
  endif()
endif()

option(LLMC_DOWNLOAD "download the headers of cudnn-frontend where they are not found" ON)
if(NOT CUDNN_FRONTEND_INCLUDE_DIR AND LLMC_PYTHON3 AND LLMC_DOWNLOAD)
  set(folder ${CMAKE_BINARY_DIR}/cudnn-frontend)
  message(NOTICE "cudnn-frontend: downloading its headers (nvidia-cudnn-frontend ${cudnn_frontend_version})")
  # The wheel is only unpacked, so it need not match this Python.
  execute_process(
    COMMAND ${LLMC_PYTHON3} -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all:
      --python-version 3.12 --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64
      --dest ${folder} nvidia-cudnn-frontend==${cudnn_frontend_version}
    TIMEOUT 120 RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  file(GLOB wheel ${folder}/nvidia_cudnn_frontend-*.whl)
  if(result STREQUAL "0" AND wheel)
    file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${folder} PATTERNS "include/*")
  endif()
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h PATHS ${folder}/include NO_DEFAULT_PATH)
endif()

if(NOT CUDNN_FRONTEND_INCLUDE_DIR)
  set(CUDNN_FRONTEND_PROBLEM "cudnn_frontend.h (python3 -m pip install --no-deps nvidia-cudnn-frontend, or pass -DCUDNN_FRONTEND_INCLUDE_DIR=<include folder of github.com/NVIDIA/cudnn-frontend>)${too_old}")
endif()
