// Times each launch of some steps, and writes them by the plan's names, with the arena's live bytes, as a Chrome trace.
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
  /// What the file says of where it was made.
  struct Machine {
    std::string device;
    int threads, world_size;
  };

  /// Throws Failure(usage) where `file` cannot be written.
  Timeline(const std::filesystem::path& file, const StepWindow& steps, Device& device, const ProgramInfo& info,
           Machine machine);

  /// Whether step `step` + 1, the next to be sent, is one to listen to.
  bool covers(std::int64_t step) const;
  /// To be called before it is sent.
  void begin_step(std::int64_t step) { steps_.push_back({step + 1, 0, 0}); }
  /// Whether the last step of the window is the `step`-th, so that the file is to be written when it is finished.
  bool ends_with(std::int64_t step) const { return !written_ && step == window_.first + window_.count; }
  /// Writes the file, of the steps that were sent, all of which are finished; nothing where there are none, or where it
  /// is written. `arena_bytes`: of this number of ranks. Throws Failure(checkpoint).
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
  /// One run of a region: a layer, a chunk of the loss.
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
  const StepWindow window_;
  Device& device_;
  const ProgramInfo& info_;
  const Machine machine_;
  Marks marks_;
  std::vector<Step> steps_;
  std::vector<Call> calls_;
  std::vector<Timed> launches_;
  std::size_t ranges_ = 0;   // that are open: step, micro-batch, region, product
  std::size_t calling_ = 0;  // of what is listened to: an attention pass may be several launches of its own
  bool written_ = false;
};

}  // namespace llmc
