#include "shared_layout.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>

#include "report.h"
#include "stamp.h"

namespace sim {
namespace {

struct Variable {
  std::size_t offset, bytes;  // in the thread-local segment
  std::string_view kernel;    // mangled; empty: any may use it
};

struct Program {
  std::size_t segment_bytes = 0;
  std::vector<Variable> variables;
};

/// The program's file, mapped until the process ends: names point into it.
const char* map_file() {
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (file < 0 || fstat(file, &status)) report("the program's own file cannot be read");
  void* memory = mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (memory == MAP_FAILED) report("the program's own file cannot be mapped");
  return static_cast<const char*>(memory);
}

template <class T>
const T* at(const char* file, std::size_t offset) {
  return reinterpret_cast<const T*>(file + offset);
}

/// Kernel that declares the variable: "_ZN1a1fEi" for "_ZZN1a1fEiE3row".
std::string_view kernel_of(std::string_view variable, const std::unordered_set<std::string_view>& functions) {
  if (!variable.starts_with("_ZZ")) return {};
  for (std::size_t end = variable.find('E'); end != std::string_view::npos; end = variable.find('E', end + 1)) {
    const auto found = functions.find(std::string("_Z").append(variable.substr(3, end - 3)));
    if (found != functions.end()) return *found;
  }
  return {};
}

Program read_program() {
  Program program;
  const char* const file = map_file();
  const auto* const header = at<Elf64_Ehdr>(file, 0);
  const auto* const segments = at<Elf64_Phdr>(file, header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i)
    if (segments[i].p_type == PT_TLS) program.segment_bytes = segments[i].p_memsz;
  const auto* const sections = at<Elf64_Shdr>(file, header->e_shoff);
  const auto* const end = sections + header->e_shnum;
  const auto* const table = std::find_if(sections, end, [](const auto& s) { return s.sh_type == SHT_SYMTAB; });
  if (table == end) report("the program has no symbol table, which tells where its kernels' shared variables are");
  const char* const names = file + sections[table->sh_link].sh_offset;
  const auto* const symbols = at<Elf64_Sym>(file, table->sh_offset);
  const auto* const last = symbols + table->sh_size / sizeof *symbols;
  std::unordered_set<std::string_view> functions;  // not inline ones: a kernel is global
  for (const auto* s = symbols; s != last; ++s)
    if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && ELF64_ST_BIND(s->st_info) == STB_GLOBAL && s->st_shndx != SHN_UNDEF)
      functions.insert(names + s->st_name);
  for (const auto* s = symbols; s != last; ++s)
    if (ELF64_ST_TYPE(s->st_info) == STT_TLS && s->st_shndx != SHN_UNDEF)
      program.variables.push_back({s->st_value, s->st_size, kernel_of(names + s->st_name, functions)});
  return program;
}

}  // namespace

SharedLayout layout_of(const char* mangled) {
  static const Program* const program = new Program(read_program());
  SharedLayout layout;
  layout.granules.assign(program->segment_bytes / kGranule + 2, Granule::undeclared);
  for (const Variable& variable : program->variables) {
    if (!variable.kernel.empty() && variable.kernel != mangled) continue;
    const std::size_t first = variable.offset / kGranule;
    const std::size_t end = (variable.offset + variable.bytes + kGranule - 1) / kGranule;
    std::fill(layout.granules.begin() + static_cast<std::ptrdiff_t>(first),
              layout.granules.begin() + static_cast<std::ptrdiff_t>(end), Granule::open);
    if (!variable.kernel.empty()) layout.bytes += variable.bytes;
  }
  return layout;
}

}  // namespace sim
