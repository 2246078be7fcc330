// Times each launch of some steps and writes them as a Chrome trace, with the plan's names and the arena's live bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "device/timeline.h"
#include "program/program.h"

namespace llmc {

/// Steps first + 1 to first + count of a run.
struct StepWindow {
  std::int64_t first, count;
};

class Timeline final : public LaunchListener {
 public:
  /// Machine description written to the file.
  struct Machine {
    std::string device;
    int threads, world_size;
  };

  /// Throws Failure(usage) if `file` cannot be written.
  Timeline(const std::filesystem::path& file, Device& device, const ProgramInfo& info, Machine machine);

  /// Call before sending the step. Forgets the steps after `step`, which a rollback repeats.
  void begin_step(std::int64_t step);
  /// Writes the file from the steps sent so far, all of which must be finished. Does nothing if there are none or it is
  /// already written. `arena_bytes`: with this number of ranks. Throws Failure(checkpoint).
  void write(std::size_t arena_bytes);

  void enter(const char* name) override;
  void leave() override;
  void begin(Stream& stream, LaunchKind kind, const char* product) override;
  void end(Stream& stream) override;

 private:
  struct Step {
    std::int64_t number;
    std::size_t begin, end;  // marks
  };
  /// One execution of a region: a layer, a chunk of the loss.
  struct Call {
    std::size_t step;  // index into steps_
    const char* region;
  };
  struct Timed {
    std::size_t call;  // index into calls_
    LaunchKind kind;
    const char* product;
    bool beside;             // on the ranks' own stream
    std::size_t begin, end;  // marks
  };

  std::string text(std::size_t arena_bytes) const;

  const std::filesystem::path file_;
  Device& device_;
  const ProgramInfo& info_;
  const Machine machine_;
  Marks marks_;
  std::vector<Step> steps_;
  std::vector<Call> calls_;
  std::vector<Timed> launches_;
  std::size_t ranges_ = 0;   // open ranges: step, micro-batch, region, product
  std::size_t calling_ = 0;  // depth of open launches: an attention pass may contain several of its own
  bool written_ = false;
};

}  // namespace llmc
