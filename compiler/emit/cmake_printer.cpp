#include "compiler/emit/cmake_printer.h"

#include "compiler/emit/flags.h"
#include "compiler/emit/printer.h"
#include "compiler/emit/program_printer.h"

namespace llmc::emit {
namespace {

std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

}  // namespace

std::string print_cmake(const plan::Plan& plan) {
  const bool cuda = plan.spec.target.kind == spec::TargetKind::cuda;
  SourceWriter out;
  out.line("# Builds the trainer of run $name$ ($print$):", {{"name", plan.spec.name}, {"print", plan.fingerprint}});
  out.line("#   cmake -B build -G Ninja && cmake --build build && build/trainer --help");
  out.line(
      "# Debian: apt-get install g++ cmake ninja-build libdnnl-dev libsentencepiece-dev libxxhash-dev libfmt-dev "
      "\\");
  out.line("#   libcli11-dev nlohmann-json3-dev libutf8proc-dev");
  if (cuda)
    out.line("# and from NVIDIA: the CUDA toolkit 12.3 or later, cuDNN 9 with the headers of cudnn-frontend, NCCL");
  out.raw(R"(cmake_minimum_required(VERSION 3.25)
)");
  out.line("project(trainer LANGUAGES $languages$)", {{"languages", cuda ? "CXX ASM CUDA" : "CXX ASM"}});
  out.raw(R"(
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

set(LLMC_RUNTIME "${CMAKE_CURRENT_SOURCE_DIR}/runtime" CACHE PATH "the runtime's sources: part of a bundle, or llmc's runtime folder")
if(NOT EXISTS "${LLMC_RUNTIME}/CMakeLists.txt")
  message(FATAL_ERROR "no runtime in ${LLMC_RUNTIME}: emit with --bundle, or pass -DLLMC_RUNTIME=<llmc>/runtime")
endif()
)");
  out.line("set(LLMC_TARGET $target$)", {{"target", cuda ? "cuda" : "cpu"}});
  out.raw(R"(# Compiles several sources of the runtime at once, because most of the time goes to shared headers.
set(CMAKE_UNITY_BUILD ON)
add_subdirectory("${LLMC_RUNTIME}" runtime)
set(CMAKE_UNITY_BUILD OFF)

file(GLOB kernels CONFIGURE_DEPENDS kernels/*)
)");
  if (cuda) {
    out.raw(R"(# CMake before 3.26 does not know nvcc's option for C++20.
foreach(kind STANDARD EXTENSION)
  if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION -std=c++20)
  endif()
endforeach()
)");
    out.line("add_executable(trainer program.cpp texts.S step.cu $k$)", {{"k", "${kernels}"}});
    out.line("set_target_properties(trainer PROPERTIES CUDA_STANDARD 20 CUDA_ARCHITECTURES OFF)");
    std::vector<std::string> flags = cuda_flags();
    flags.erase(flags.begin());  // the standard is a property
    for (const std::string& f : gencode(plan.spec.target.arch))
      flags.push_back(f == "-gencode" ? "" : "SHELL:-gencode " + f);
    std::string options;
    for (const std::string& f : flags)
      if (!f.empty()) options += " \"$<$<COMPILE_LANGUAGE:CUDA>:" + f + ">\"";
    out.line("target_compile_options(trainer PRIVATE$options$)", {{"options", options}});
    out.line("target_link_libraries(trainer PRIVATE llmc_runtime_cuda)");
  } else {
    out.line("set(ARCH \"$arch$\" CACHE STRING \"instruction set, as g++ -march names it\")",
             {{"arch", plan.spec.target.arch.empty() ? "native" : plan.spec.target.arch.front()}});
    out.line("add_executable(trainer program.cpp texts.S step.cpp $k$)", {{"k", "${kernels}"}});
    const std::pair<const char*, std::vector<std::string>> all[] = {{"${kernels}", cpu_flags()},
                                                                    {"step.cpp", cpu_step_flags()}};
    for (auto [files, flags] : all) {
      flags.erase(flags.begin());
      flags.push_back("-Wno-unused-parameter");  // a kernel has its template's parameters, used or not
      out.line("set_source_files_properties($files$ PROPERTIES COMPILE_OPTIONS \"$flags$;-march=$a$\")",
               {{"files", files}, {"flags", joined(flags, ";")}, {"a", "${ARCH}"}});
    }
    out.line("target_compile_definitions(trainer PRIVATE LLMC_ARCH=\"$a$\")", {{"a", "${ARCH}"}});
    out.line("target_link_libraries(trainer PRIVATE llmc_runtime_cpu)");
  }
  out.line("target_include_directories(trainer PRIVATE $a$ $b$ $b$/.. $b$/../templates $b$/../templates/cpu)",
           {{"a", "${CMAKE_CURRENT_SOURCE_DIR}"}, {"b", "${LLMC_RUNTIME}"}});
  std::string names;
  for (const auto& [name, text] : text_files(plan)) names += (names.empty() ? "$f$/" : ";$f$/") + name;
  out.line("set_source_files_properties(texts.S PROPERTIES COMPILE_OPTIONS \"-Xassembler;-I$f$\" OBJECT_DEPENDS \"" +
               names + "\")",
           {{"f", "${CMAKE_CURRENT_SOURCE_DIR}"}});
  return out.take();
}

}  // namespace llmc::emit
