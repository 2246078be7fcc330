// Saves one checkpoint of the small state: the victim of fail_shim. Usage: save_program RUN STEP.
// Exit 0: saved; 10: saved although a call failed; 6 and others: the Failure's code.
#include <cstdio>
#include <cstdlib>

#include "error.h"
#include "small_state.h"

extern "C" __attribute__((weak)) int fail_shim_fired();

int main(int, char** argv) try {
  const std::int64_t step = std::atoll(argv[2]);
  llmc::SmallState state(static_cast<float>(step + 1));
  const auto log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  llmc::save_checkpoint(argv[1], llmc::small_train_state(step), llmc::kTexts, llmc::small_parameters(), state.access,
                        {.retention = {1, 0}, .log = log, .shard_bytes = 600});
  return fail_shim_fired != nullptr && fail_shim_fired() ? 10 : 0;
} catch (const llmc::Failure& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return static_cast<int>(failure.code());
}
