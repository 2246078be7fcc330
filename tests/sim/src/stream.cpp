#include "stream.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "report.h"
#include "shadow.h"

namespace sim {
namespace {

struct Streams {
  std::vector<std::unique_ptr<CUstream_st>> all;
  CUstream_st* default_stream = nullptr;
  std::shared_ptr<const Clock> host = std::make_shared<const Clock>();
  double milliseconds = 0;
  std::vector<std::string> ranges;  // open ranges
  std::uint64_t opened = 0;
};

Streams& streams() {
  static Streams* const one = new Streams;
  return *one;
}

std::string open_ranges() {
  std::string path;
  for (const std::string& range : streams().ranges) path += (path.empty() ? "" : "/") + range;
  return path;
}

/// `clock` includes the operation itself.
void log_run(const CUstream_st& stream, const Work& work, const Clock& clock) {
  std::string line = "stream " + std::to_string(stream.index) + ": " + work.name +
                     "\norder: " + std::to_string(stream.index) + "." + std::to_string(clock[stream.index]) + " " +
                     (work.range.empty() ? "-" : work.range) + " after";
  for (std::size_t i = 0; i < clock.size(); ++i)
    if (const std::uint32_t last = clock[i] - (i == stream.index); last > 0)
      line += " " + std::to_string(i) + "." + std::to_string(last);
  log_line(line);
}

void run(CUstream_st& stream, Work& work) {
  Clock clock = stream.clock;
  join(clock, *work.host);
  stream.clock = order().begin(stream.index, work.name, std::move(clock));
  begin_accesses();
  log_run(stream, work, stream.clock);
  spend(0.001);
  work.run();
}

void push(CUstream_st& stream, Work work) {
  Sequence* const sequence = work.sequence.get();
  if (sequence) {
    work.turn = ++sequence->queued;
    sequence->streams.push_back(&stream);
  }
  stream.queue.push_back(std::move(work));
  if (sequence) sequence->grew();
}

}  // namespace

void spend(double milliseconds) { streams().milliseconds += milliseconds; }

void log_line(const std::string& line) {
  static std::FILE* const file = [] {
    const char* path = std::getenv("LLMC_SIM_LOG");
    return path ? std::fopen(path, "a") : nullptr;
  }();
  if (!file) return;
  std::fputs((line + "\n").c_str(), file);
  std::fflush(file);
}

void push_range(const std::string& name) {
  log_line("push " + name);
  std::string word = name + ":" + std::to_string(++streams().opened);
  std::replace(word.begin(), word.end(), ' ', '_');
  streams().ranges.push_back(std::move(word));
}

void pop_range() {
  log_line("pop");
  streams().ranges.pop_back();
}

CUstream_st* create_stream(int priority) {
  auto stream = std::make_unique<CUstream_st>();
  stream->priority = priority;
  stream->index = order().add_stream();
  streams().all.push_back(std::move(stream));
  return streams().all.back().get();
}

CUstream_st& stream_of(cudaStream_t handle) {
  Streams& s = streams();
  if (handle) {
    for (const auto& stream : s.all)
      if (stream.get() == handle) return *handle;
    report("a stream was used that does not exist, or no longer");
  }
  if (!s.default_stream) s.default_stream = create_stream();
  return *s.default_stream;
}

void destroy_stream(CUstream_st* stream) {
  run_all(*stream);
  auto& all = streams().all;
  all.erase(std::find_if(all.begin(), all.end(), [stream](const auto& s) { return s.get() == stream; }));
}

void enqueue(CUstream_st& stream, std::string name, std::function<void()> run, std::shared_ptr<Sequence> sequence) {
  if (stream.capture) {
    stream.capture->calls.push_back(
        {stream.branch, std::move(name), std::move(run), std::move(sequence), -1, -1, open_ranges()});
    return;
  }
  push(stream,
       {std::move(name), std::move(run), nullptr, nullptr, streams().host, std::move(sequence), 0, open_ranges()});
}

void record(CUstream_st& stream, CUevent_st& event) {
  event.capture = stream.capture;
  if (stream.capture) {
    event.captured = stream.capture->moments++;
    stream.capture->calls.push_back({stream.branch, "", nullptr, nullptr, event.captured, -1});
    return;
  }
  event.moment = std::make_shared<Moment>();
  event.moment->stream = &stream;
  stream.queue.push_back({"", nullptr, event.moment, nullptr, streams().host});
}

cudaError_t wait(CUstream_st& stream, const CUevent_st& event) {
  if (event.capture) {
    if (event.capture->ended)
      return cudaErrorInvalidValue;  // an event recorded in a capture, which only a graph can
                                     // wait for
    if (stream.capture && stream.capture != event.capture) return cudaErrorStreamCaptureIsolation;
    if (!stream.capture) {
      stream.capture = event.capture;
      stream.branch = event.capture->branches.size();
      event.capture->branches.push_back(&stream);
      if (stream.priority != event.capture->branches[0]->priority) event.capture->prioritised = true;
    }
    event.capture->calls.push_back({stream.branch, "", nullptr, nullptr, -1, event.captured});
    return cudaSuccess;
  }
  if (stream.capture) return cudaErrorStreamCaptureIsolation;
  if (event.moment) stream.queue.push_back({"", nullptr, nullptr, event.moment, streams().host});
  return cudaSuccess;
}

bool advance(CUstream_st& stream) {
  if (stream.queue.empty()) return false;
  if (const auto awaited = stream.queue.front().wait) run_until(*awaited);
  if (const auto sequence = stream.queue.front().sequence) run_until(*sequence, stream.queue.front().turn - 1);
  Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (work.wait) {
    join(stream.clock, work.wait->clock);
  } else if (work.record) {
    join(stream.clock, *work.host);
    work.record->clock = stream.clock;
    work.record->milliseconds = streams().milliseconds;
    work.record->reached = true;
  } else {
    run(stream, work);
  }
  if (work.sequence) {
    ++work.sequence->done;
    work.sequence->streams.pop_front();
  }
  return true;
}

void run_all(CUstream_st& stream) {
  while (advance(stream)) continue;
}

void run_until(Moment& moment) {
  while (!moment.reached)
    if (!advance(*moment.stream)) report("an event waits for a stream that has nothing to do");
}

void run_until(Sequence& sequence, std::uint64_t turn) {
  while (sequence.done < turn) advance(*sequence.streams.front());
}

void run_everything() {
  for (std::size_t i = 0; i < streams().all.size(); ++i) {
    CUstream_st& stream = *streams().all[i];
    run_all(stream);
    host_saw(stream.clock);
  }
}

void host_saw(const Clock& clock) {
  auto seen = std::make_shared<Clock>(*streams().host);
  join(*seen, clock);
  streams().host = std::move(seen);
}

void push_graph(const Capture& graph, const std::vector<CUstream_st*>& branches) {
  std::vector<std::shared_ptr<Moment>> moments(static_cast<std::size_t>(graph.moments));
  for (const Capture::Call& call : graph.calls) {
    CUstream_st& stream = *branches[call.branch];
    Work work = {call.name, call.run, nullptr, nullptr, streams().host, call.sequence, 0, call.range};
    if (call.record >= 0) {
      work.record = moments[static_cast<std::size_t>(call.record)] = std::make_shared<Moment>();
      work.record->stream = &stream;
    }
    if (call.wait >= 0) work.wait = moments[static_cast<std::size_t>(call.wait)];
    push(stream, std::move(work));
  }
}

bool joined(const Capture& capture) {
  // Vector clocks for the graph: the number of calls of each branch before a branch's next one.
  std::vector<Clock> known(capture.branches.size(), Clock(capture.branches.size()));
  std::vector<Clock> moments(static_cast<std::size_t>(capture.moments));
  for (const Capture::Call& call : capture.calls) {
    Clock& mine = known[call.branch];
    if (call.wait >= 0) {
      join(mine, moments[static_cast<std::size_t>(call.wait)]);
    } else if (call.record >= 0) {
      moments[static_cast<std::size_t>(call.record)] = mine;
    } else {
      ++mine[call.branch];
    }
  }
  for (std::size_t branch = 1; branch < known.size(); ++branch)
    if (known[0][branch] < known[branch][branch]) return false;
  return true;
}

}  // namespace sim
