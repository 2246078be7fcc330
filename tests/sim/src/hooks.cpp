// Implements the calls that g++ -fsanitize=thread and -fsanitize=alignment insert into kernels; libtsan and libubsan
// are not linked.
#include <cstdint>
#include <string>

#include "report.h"
#include "shadow.h"

namespace {

using sim::Access;

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

/// Beginning of UBSan's handler data: location, type, logarithm of its alignment.
struct TypeMismatch {
  const char* file;
  std::uint32_t line, column;
  struct Type {
    std::uint16_t kind, info;
    char name[1];
  } const* type;
  unsigned char log_alignment, kind;
};

}  // namespace

#define LLMC_ACCESSES(bytes)                                                                                         \
  void __tsan_read##bytes(void* address) { sim::touch_from_lane(Access::read, number(address), bytes); }             \
  void __tsan_write##bytes(void* address) { sim::touch_from_lane(Access::write, number(address), bytes); }           \
  void __tsan_unaligned_read##bytes(void* address) { sim::touch_from_lane(Access::read, number(address), bytes); }   \
  void __tsan_unaligned_write##bytes(void* address) { sim::touch_from_lane(Access::write, number(address), bytes); } \
  void __tsan_volatile_read##bytes(void* address) { sim::touch_from_lane(Access::read, number(address), bytes); }    \
  void __tsan_volatile_write##bytes(void* address) { sim::touch_from_lane(Access::write, number(address), bytes); }

extern "C" {

LLMC_ACCESSES(1)
LLMC_ACCESSES(2)
LLMC_ACCESSES(4)
LLMC_ACCESSES(8)
LLMC_ACCESSES(16)

void __tsan_read_range(void* address, unsigned long bytes) {
  sim::touch_from_lane(Access::read, number(address), bytes);
}
void __tsan_write_range(void* address, unsigned long bytes) {
  sim::touch_from_lane(Access::write, number(address), bytes);
}
void __tsan_init() {}

void __ubsan_handle_type_mismatch_v1_abort(const TypeMismatch* what, std::uintptr_t address) {
  const std::string file = what->file;
  sim::report("kernel " + sim::order().describe(sim::now.operation) + ": " + file.substr(file.rfind('/') + 1) + ":" +
              std::to_string(what->line) + " uses a " + what->type->name + " at an address that is not a multiple of " +
              std::to_string(1u << what->log_alignment) + ": " + sim::describe_bytes(address, 1));
}

}  // extern "C"
