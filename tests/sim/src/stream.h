// Streams and events: work is queued and runs only when the host waits for it, so that what nothing waits for is seen
// to be missing.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"
#include "order.h"

namespace sim {

/// One record of an event: reached when the stream gets there.
struct Moment {
  CUstream_st* stream = nullptr;
  bool reached = false;
  Clock clock;
  double milliseconds = 0;
};

/// Operations on several streams that a library runs one after the other, in the order in which they were queued, as
/// NCCL does a communicator's. That orders when they run, and nothing of what they touch.
struct Sequence {
  virtual ~Sequence() = default;
  /// One more is queued.
  virtual void grew() {}

  std::uint64_t queued = 0, done = 0;
  std::deque<CUstream_st*> streams;  // of those that are queued and not done
};

struct Work {
  std::string name;
  std::function<void()> run;          // null: not an operation, but one of the next two
  std::shared_ptr<Moment> record;     // reached now
  std::shared_ptr<Moment> wait;       // not before this
  std::shared_ptr<const Clock> host;  // what the host knew to have ended when it queued this
  std::shared_ptr<Sequence> sequence = nullptr;
  std::uint64_t turn = 0;  // in the sequence, from 1
  std::string range = {};  // the ranges that were open when the host asked for it, or when it was taken down
};

/// What a capture has taken down: calls, to be made again on other streams.
struct Capture {
  struct Call {
    std::size_t branch;
    std::string name;
    std::function<void()> run;
    std::shared_ptr<Sequence> sequence;
    int record = -1, wait = -1;  // moments of the capture
    std::string range = {};
  };
  std::vector<Call> calls;
  std::vector<CUstream_st*> branches;  // the first is the one that began
  int moments = 0;
  bool ended = false;
  bool prioritised = false;  // a branch has another priority than the first
};

}  // namespace sim

struct CUstream_st {
  std::uint32_t index = 0;
  std::deque<sim::Work> queue;
  sim::Clock clock;
  std::shared_ptr<sim::Capture> capture;  // null: not capturing
  std::size_t branch = 0;                 // of the capture
  int priority = 0;
};

struct CUevent_st {
  std::shared_ptr<sim::Moment> moment;    // of the newest record; null before the first
  std::shared_ptr<sim::Capture> capture;  // of the newest record, when a capture took it down
  int captured = -1;
  bool timing = true;
};

namespace sim {

/// Null is the default stream, which here is a stream like any other.
CUstream_st& stream_of(cudaStream_t handle);
CUstream_st* create_stream(int priority = 0);
void destroy_stream(CUstream_st* stream);

/// Queues an operation, or takes it down where the stream captures.
void enqueue(CUstream_st& stream, std::string name, std::function<void()> run,
             std::shared_ptr<Sequence> sequence = nullptr);
void record(CUstream_st& stream, CUevent_st& event);
cudaError_t wait(CUstream_st& stream, const CUevent_st& event);

/// One entry of the queue, and what it waits for; false when there is none.
bool advance(CUstream_st& stream);
void run_all(CUstream_st& stream);
void run_until(Moment& moment);
void run_until(Sequence& sequence, std::uint64_t turn);
void run_everything();

/// Lets the device's time pass, which is made up: each operation takes 0.001 ms, and what it says here.
void spend(double milliseconds);
/// Of a kernel. Whoever measures one repeats it until some milliseconds are over: lanes take the host longer than that.
constexpr double kKernelMs = 0.5;

/// The host has seen all that `clock` knows of to end.
void host_saw(const Clock& clock);

/// LLMC_SIM_LOG names a file: two lines for each operation as it runs, and one for what the host says to profilers. The
/// second line has its place, the ranges that it is part of, and what must have ended before it begins: the last one of
/// each stream. "order: 1.7 micro-batch:3/gather_layer:5 after 0.12 1.6": the seventh operation of stream 1, part of
/// the fifth range that the host opened, which is called gather_layer, after the twelfth of stream 0.
void log_line(const std::string& line);
/// Of NVTX.
void push_range(const std::string& name);
void pop_range();

// Graphs.
void push_graph(const Capture& graph, const std::vector<CUstream_st*>& branches);
/// Whether all branches have joined the first again.
bool joined(const Capture& capture);

}  // namespace sim
