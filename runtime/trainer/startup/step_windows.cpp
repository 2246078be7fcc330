#include "trainer/startup/step_windows.h"

#include <fmt/format.h>

#include <optional>

#include "error.h"

namespace llmc {

namespace {

constexpr std::int64_t kWarmUpSteps = 2, kTimelineSteps = 3;

bool ends_by(const StepWindow& window, std::int64_t stop) { return window.first + window.count <= stop; }

void check_profile(const StepWindow& window, std::int64_t done, std::int64_t stop) {
  if (window.first < done || !ends_by(window, stop))
    throw Failure(Exit::usage, fmt::format("--profile {}:{} names steps {} to {}, but this run trains steps {} to {}",
                                           window.first + 1, window.count, window.first + 1,
                                           window.first + window.count, done + 1, stop));
}

bool is_past(const std::optional<StepWindow>& window, std::int64_t done) { return window && window->first < done; }

std::string past_note(const char* option, const StepWindow& window, std::int64_t done) {
  return fmt::format("note    {} {}:{} names steps before step {}, at which the run resumes, and is ignored", option,
                     window.first + 1, window.count, done + 1);
}

StepWindow usual_timeline(std::int64_t done) { return {done + kWarmUpSteps, kTimelineSteps}; }

}  // namespace

std::vector<std::string> drop_past_windows(Options& options, std::int64_t done, std::int64_t stop) {
  std::vector<std::string> notes;
  if (is_past(options.profile, done)) {
    notes.push_back(past_note("--profile", *options.profile, done));
    options.profile.reset();
  }
  if (is_past(options.timeline_steps, done)) {
    notes.push_back(past_note("--timeline-steps", *options.timeline_steps, done));
    options.timeline_steps.reset();
    options.timeline.clear();
  }
  if (done > 0 && !options.timeline.empty() && !options.timeline_steps && !ends_by(usual_timeline(done), stop)) {
    notes.push_back(
        fmt::format("note    --timeline needs {} more steps than step {}, at which the run resumes, and is "
                    "ignored",
                    kWarmUpSteps + kTimelineSteps - 1, done + 1));
    options.timeline.clear();
  }
  return notes;
}

StepWindow timeline_steps(const Options& options, std::int64_t done, std::int64_t stop) {
  const StepWindow steps = options.timeline_steps.value_or(usual_timeline(done));
  if (steps.first < done || !ends_by(steps, stop))
    throw Failure(Exit::usage, fmt::format("--timeline would write steps {} to {}, but this run trains steps {} to {}. "
                                           "Choose others with --timeline-steps START:COUNT",
                                           steps.first + 1, steps.first + steps.count, done + 1, stop));
  return steps;
}

void check_windows(const Options& options, std::int64_t done, std::int64_t stop) {
  if (options.profile) check_profile(*options.profile, done, stop);
  if (!options.timeline.empty()) timeline_steps(options, done, stop);
}

}  // namespace llmc
