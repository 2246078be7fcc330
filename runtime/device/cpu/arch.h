// Instruction sets by their g++ -march names: detects this machine's, and checks whether it can run code for a name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llmc {

/// Name for this machine that g++ 12 and later accept after -march=. It stands for instructions, not for a vendor: an
/// AMD core with avx512_bf16 is "cooperlake", because g++ 12 has no name of its own for it.
std::string machine_arch();

/// The system has to save tile registers, too.
bool cpu_has_tiles();
bool cpu_has_fp16();  // avx512_fp16

/// Instructions of `wanted` (instructions.h) that this machine lacks: "avx512bf16, amx-tile", or empty.
std::string missing_instructions(std::uint64_t wanted);

/// Returns whether code compiled with -march=`arch` may use AMX's bf16 tiles (tiles.h). False for "native": a machine's
/// name is machine_arch().
bool arch_has_tiles(std::string_view arch);
/// Returns whether code compiled with -march=`arch` runs on processors with AVX-512 only. False for "native".
bool arch_has_avx512(std::string_view arch);

/// Requests the tile registers, which Linux grants a process only on request. Call it before any thread uses them.
/// Throws Failure(toolchain) if the system refuses.
void require_tiles();

}  // namespace llmc
