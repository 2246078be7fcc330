// Instruction sets by the names that g++ -march takes: what this machine is, and whether it can run code made for a
// name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llmc {

/// The name for this machine that g++ 12 and later accept after -march=. It stands for the instructions, not for the
/// maker: an AMD core with avx512_bf16 is "cooperlake", because g++ 12 has no name of its own for it.
std::string machine_arch();

/// The system has to save tile registers, too.
bool cpu_has_tiles();
bool cpu_has_fp16();  // avx512_fp16

/// Those of `wanted` (instructions.h) that this machine does not have: "avx512bf16, amx-tile", or empty.
std::string missing_instructions(std::uint64_t wanted);

/// True if code compiled with -march=`arch` may use AMX's tiles of bf16 (tiles.h). False for "native": a machine's name
/// is machine_arch().
bool arch_has_tiles(std::string_view arch);

/// Asks the system for the tile registers, which it gives a process on request only; call it before threads use them.
/// Throws Failure(toolchain) where the system refuses.
void require_tiles();

}  // namespace llmc
