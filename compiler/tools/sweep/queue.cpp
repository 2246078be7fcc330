#include "compiler/tools/sweep/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>

#include "compiler/tools/runs/summary.h"
#include "compiler/tools/sweep/child.h"
#include "compiler/tools/sweep/losses.h"
#include "compiler/tools/sweep/stop_signals.h"
#include "error.h"
#include "files/disk.h"
#include "run/folder_lock.h"
#include "run/run_folder.h"
#include "text/console.h"
#include "text/plural.h"
#include "text/printable.h"

namespace llmc::sweep {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kPoll = std::chrono::milliseconds(200);
constexpr auto kReport = std::chrono::seconds(30);  // between two lines about the runs in progress
constexpr std::uint64_t kReadOfLog = 1u << 20;      // bytes at a log's end, where a trainer's error stands

fs::path log_of(const fs::path& folder, const Run& run) {
  return folder / "logs" / (fs::path(run.folder).filename().string() + ".txt");
}

/// File that a trainer's `evaluate` writes for a run whose own last evaluation was aborted.
fs::path evaluation_of(const fs::path& folder, const Run& run) {
  return log_of(folder, run).replace_extension(".evaluation.txt");
}

/// Returns the last error that a log has from byte `begin` on, else its last line there, for a message.
std::string last_error(const fs::path& log, std::uintmax_t begin) {
  std::istringstream lines(disk::tail(log, kReadOfLog, begin));
  std::string last;
  bool error = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || (error && !line.starts_with("error: "))) continue;
    error = line.starts_with("error: ");
    last = std::move(line);
  }
  return printable_text(last.substr(0, 400));
}

/// Returns the loss of a step in the JSON lines of a trainer's `evaluate`; NaN if it is not finite.
std::optional<double> evaluated(const fs::path& file, std::int64_t step) {
  std::istringstream lines(disk::tail(file, kReadOfLog, 0));
  std::optional<double> loss;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object() || object.value("step", nlohmann::json()) != step || !object.contains("loss")) continue;
    loss = object["loss"].is_number() ? object["loss"].get<double>() : NAN;
  }
  return loss;
}

/// Reads a run's steps and losses from its folder. A validation loss counts only if it is of the last step, since those
/// of other steps do not compare. Returns how the run stands there.
runs::RunState take_results(Run& run, const fs::path& folder) {
  const runs::Summary summary = runs::summarise(folder / run.folder);
  Losses losses(folder / run.folder / "metrics.jsonl");
  losses.update();
  run.step = losses.step();
  run.loss = losses.mean(run.step, window_of(run.step));
  run.val_loss = summary.val_step == run.step ? summary.val_loss : evaluated(evaluation_of(folder, run), run.step);
  return summary.state;
}

class Queue {
 public:
  Queue(Record& record, const Work& work) : record_(record), work_(work), places_(work.places) {
    for (const Run& run : record.runs) losses_.emplace_back(work.folder / run.folder / "metrics.jsonl").update();
  }

  int work_off() {
    while (true) {
      const int signal = signals_.received();
      if (signal && !stopping_) stop_all(signal);
      for (std::size_t place = 0; place < places_.size(); ++place) {
        if (places_[place].child) collect(places_[place]);
        if (!places_[place].child && !signal) start_next(place);
      }
      if (!busy() && (signal || !first_waiting())) return exit_code();
      if (work_.rule && !signal) prune();
      if (Clock::now() >= next_report_) report();
      std::this_thread::sleep_for(kPoll);
    }
  }

 private:
  struct Place {
    std::unique_ptr<Child> child;  // null: free
    std::size_t run = 0;
    bool evaluates = false;         // the child is an evaluation of the finished run
    int compared = 0;               // share in percent of the steps at which it was compared last
    std::string ending;             // the reason why it was asked to end
    std::uintmax_t log_begins = 0;  // where the log of this start begins in the run's
  };

  bool busy() const {
    return std::ranges::any_of(places_, [](const Place& place) { return place.child != nullptr; });
  }

  /// Whether a request to stop has aborted the last evaluation of a finished run.
  bool lacks_evaluation(std::size_t run) const {
    const Run& is = record_.runs[run];
    return is.state == State::finished && !is.val_loss && work_.evaluation && !work_.evaluation(run, 0).empty();
  }

  /// Whether a run is to be started or evaluated, and this process has not done it yet.
  bool waits(std::size_t run) const {
    return (!is_final(record_.runs[run].state) || lacks_evaluation(run)) && !std::ranges::count(started_, run);
  }
  std::optional<std::size_t> first_waiting(bool free = false) const {
    for (std::size_t run = 0; run < record_.runs.size(); ++run)
      if (waits(run) && !(free && FolderLock::is_held(work_.folder / record_.runs[run].folder))) return run;
    return std::nullopt;
  }

  std::string title(std::size_t run) const {
    return fmt::format("{} {}", fs::path(record_.runs[run].folder).filename().string(), record_.grid.label(run));
  }

  void start_next(std::size_t at) {
    // A trainer that outlived a killed sweep holds its folder until it has saved.
    const std::optional<std::size_t> next = first_waiting(true);
    if (!next) return;
    Run& run = record_.runs[*next];
    if (lacks_evaluation(*next)) return start_evaluation(at, *next);
    const fs::path log = log_of(work_.folder, run);
    std::error_code none;
    const std::uintmax_t bytes = fs::file_size(log, none);
    // A share that an earlier start has passed is not compared again.
    const std::vector<int> passed = shares_passed(*next);
    places_[at] = {.child = std::make_unique<Child>(work_.command(*next, at), log),
                   .run = *next,
                   .compared = passed.empty() ? 0 : passed.back(),
                   .ending = "",
                   .log_begins = none ? 0 : bytes};
    started_.push_back(*next);
    run.state = State::running;
    run.reason.clear();
    keep_record();
    work_.say(fmt::format("{}: started", title(*next)));
  }

  void start_evaluation(std::size_t at, std::size_t run) {
    const fs::path file = evaluation_of(work_.folder, record_.runs[run]);
    std::error_code none;
    fs::remove(file, none);
    places_[at] = {
        .child = std::make_unique<Child>(work_.evaluation(run, at), file), .run = run, .evaluates = true, .ending = ""};
    started_.push_back(run);
    work_.say(fmt::format("{}: its last evaluation was aborted and is repeated", title(run)));
  }

  void collect_evaluation(const Place& place, int code) {
    Run& run = record_.runs[place.run];
    take_results(run, work_.folder);
    keep_record();
    if (run.val_loss)
      return work_.say(fmt::format("{}: validation loss {:.4f}", title(place.run), without_nan_sign(*run.val_loss)));
    if (stopping_) return;
    failed_evaluation_ = code;
    work_.say(fmt::format("{}: the evaluation failed: {}", title(place.run),
                          last_error(evaluation_of(work_.folder, run), 0)));
  }

  /// Records how a run ended, if it did.
  void collect(Place& place) {
    const std::optional<int> code = place.child->ended();
    if (!code) return;
    place.child.reset();
    if (place.evaluates) return collect_evaluation(place, *code);
    Run& run = record_.runs[place.run];
    run.exit_code = *code;
    const bool asked = stopping_ || !place.ending.empty();
    run.reason = stopping_ || *code == 0 ? "" : place.ending;
    if (*code == 0)
      run.state = State::finished;
    else if (*code == static_cast<int>(Exit::numerics))
      run.state = State::diverged;
    // 143: it was asked before its first step.
    else if (*code == static_cast<int>(Exit::resume_me) || (*code == 128 + SIGTERM && asked))
      run.state = run.reason.empty() ? State::stopped : State::pruned;
    else
      run.state = State::failed;
    if (run.state == State::failed || run.state == State::diverged) {
      run.reason = last_error(log_of(work_.folder, run), place.log_begins);
      if (const int signal = *code - 128; signal > 0 && !run.reason.starts_with("error: "))
        run.reason = fmt::format("ended by SIG{}", sigabbrev_np(signal) ? sigabbrev_np(signal) : "?");
    }
    take_results(run, work_.folder);
    losses_[place.run].update();
    if (lacks_evaluation(place.run)) std::erase(started_, place.run);
    keep_record();
    const std::optional<double> loss = run.val_loss ? run.val_loss : run.loss;
    work_.say(fmt::format("{}: {} at step {}{}{}", title(place.run), name(run.state), format_count(run.step),
                          loss ? fmt::format(", {} {:.4f}", run.val_loss ? "validation loss" : "loss", *loss) : "",
                          run.reason.empty() ? "" : fmt::format(": {}", run.reason)));
  }

  /// A disk that is full must not end the trainers.
  void keep_record() {
    try {
      write(work_.folder, record_);
    } catch (const Failure& failure) {
      work_.say(failure.what());
    }
  }

  void stop_all(int signal) {
    stopping_ = true;
    work_.say(fmt::format("SIG{}: the trainers save and end", sigabbrev_np(signal)));
    for (Place& place : places_)
      if (place.child) place.child->stop();
  }

  void prune() {
    for (const Place& place : places_)
      if (place.child) losses_[place.run].update();
    for (Place& place : places_) {
      if (!place.child || place.evaluates) continue;
      for (const int share : shares_passed(place.run)) {
        if (!place.ending.empty() || share <= place.compared) continue;
        place.compared = share;
        const std::optional<double> distance = behind(*work_.rule, loss_at(place.run, share), all_at(share));
        if (!distance) continue;
        place.ending = fmt::format("{:.4f} nats behind the best run at {} % of the steps", *distance, share);
        place.child->stop();
      }
    }
  }

  std::vector<int> shares_passed(std::size_t run) const {
    std::vector<int> shares = work_.rule ? work_.rule->shares() : std::vector<int>();
    std::erase_if(shares, [&](int share) { return !loss_at(run, share); });
    return shares;
  }

  /// Losses of the runs at a share. Those that diverged or failed may have been the best before, and end no other.
  std::vector<std::optional<double>> all_at(int share) const {
    std::vector<std::optional<double>> all;
    for (std::size_t run = 0; run < losses_.size(); ++run) {
      const State state = record_.runs[run].state;
      all.push_back(state == State::diverged || state == State::failed ? std::nullopt : loss_at(run, share));
    }
    return all;
  }

  /// Mean loss of a run where it had done a share of its steps; nothing if it has not come as far.
  std::optional<double> loss_at(std::size_t run, int share) const {
    const std::int64_t steps = record_.runs[run].steps, step = step_at(share, steps);
    return losses_[run].step() < step ? std::nullopt : losses_[run].mean(step, window_of(steps));
  }

  void report() {
    next_report_ = Clock::now() + kReport;
    if (!busy()) {
      if (const std::optional<std::size_t> next = first_waiting())
        work_.say(fmt::format("{}: waits for the trainer that an earlier start left", title(*next)));
      return;
    }
    std::size_t done = 0;
    for (const Run& run : record_.runs) done += is_final(run.state);
    std::string text = fmt::format("{} of {} run{} done", done, record_.runs.size(),
                                   plural(static_cast<std::int64_t>(record_.runs.size())));
    for (const Place& place : places_) {
      if (!place.child) continue;
      Losses& losses = losses_[place.run];
      losses.update();
      const Run& run = record_.runs[place.run];
      text += fmt::format("; {} step {}/{}", fs::path(run.folder).filename().string(), format_count(losses.step()),
                          format_count(run.steps));
      if (const std::optional<double> loss = losses.mean(losses.step(), window_of(losses.step())))
        text += fmt::format(" loss {:.4f}", without_nan_sign(*loss));
    }
    work_.say(text);
  }

  int exit_code() const {
    if (signals_.received()) return static_cast<int>(Exit::resume_me);
    for (const Run& run : record_.runs)
      if (run.state == State::failed) return run.exit_code;
    const bool stopped = std::ranges::any_of(record_.runs, [](const Run& run) { return !is_final(run.state); });
    return stopped ? static_cast<int>(Exit::resume_me) : failed_evaluation_;
  }

  Record& record_;
  const Work& work_;
  StopSignals signals_;
  std::vector<Place> places_;
  std::vector<Losses> losses_;
  std::vector<std::size_t> started_;  // by this process
  bool stopping_ = false;
  int failed_evaluation_ = 0;  // exit code of the last one that failed
  Clock::time_point next_report_ = Clock::now() + kReport;
};

}  // namespace

int work_off(Record& record, const Work& work) { return Queue(record, work).work_off(); }

namespace {

/// State of a run that is not final, from its folder. `advanced`: it has more steps than the record knows.
State state_after(State before, runs::RunState found, bool advanced) {
  if (found == runs::RunState::running) return State::running;
  if (found == runs::RunState::finished) return State::finished;
  if (found == runs::RunState::stopped) return before == State::failed && !advanced ? State::failed : State::stopped;
  // A run that was asked to stop before its first step has saved nothing, and has not failed.
  return before == State::stopped && !advanced ? State::stopped : State::failed;
}

}  // namespace

void look_up(Record& record, const fs::path& folder) {
  for (Run& run : record.runs) {
    if (!RunFolder::holds_run(folder / run.folder)) continue;
    const std::int64_t step = run.step;
    const runs::RunState found = take_results(run, folder);
    if (is_final(run.state)) continue;
    const State before = std::exchange(run.state, state_after(run.state, found, run.step > step));
    if (run.state != before) run.reason.clear();
  }
}

}  // namespace llmc::sweep
