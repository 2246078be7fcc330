// Streams and events: work is queued and runs only when the host waits for it, so that missing waits are detected.
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

/// Operations on several streams that a library runs in queue order, as NCCL does for a communicator. That orders their
/// execution, but not their memory accesses.
struct Sequence {
  virtual ~Sequence() = default;
  /// Called when another operation is queued.
  virtual void grew() {}

  std::uint64_t queued = 0, done = 0;
  std::deque<CUstream_st*> streams;  // of those queued and not done
};

struct Work {
  std::string name;
  std::function<void()> run;          // null: no operation, but one of the next two
  std::shared_ptr<Moment> record;     // reached now
  std::shared_ptr<Moment> wait;       // not before this
  std::shared_ptr<const Clock> host;  // operations that the host knew to have ended when it queued this one
  std::shared_ptr<Sequence> sequence = nullptr;
  std::uint64_t turn = 0;  // in the sequence, from 1
  std::string range = {};  // ranges open when the host queued it, or when it was captured
};

/// Content of a capture: calls, to be repeated on other streams.
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
  std::vector<CUstream_st*> branches;  // the first is the one on which the capture began
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
  std::shared_ptr<sim::Capture> capture;  // of the newest record, if it was captured
  int captured = -1;
  bool timing = true;
};

namespace sim {

/// Null is the default stream, treated like any other here.
CUstream_st& stream_of(cudaStream_t handle);
CUstream_st* create_stream(int priority = 0);
void destroy_stream(CUstream_st* stream);

/// Queues an operation, or captures it if the stream is capturing.
void enqueue(CUstream_st& stream, std::string name, std::function<void()> run,
             std::shared_ptr<Sequence> sequence = nullptr);
void record(CUstream_st& stream, CUevent_st& event);
cudaError_t wait(CUstream_st& stream, const CUevent_st& event);

/// Runs one entry of the queue and the operations it waits for; false if there is none.
bool advance(CUstream_st& stream);
void run_all(CUstream_st& stream);
void run_until(Moment& moment);
void run_until(Sequence& sequence, std::uint64_t turn);
void run_everything();

/// Advances the device's simulated time: each operation takes 0.001 ms, plus this.
void spend(double milliseconds);
/// Of a kernel. Benchmarks repeat a kernel until some milliseconds have passed, and lanes take the host longer than
/// that.
constexpr double kKernelMs = 0.5;

/// The host has observed that everything in `clock` has ended.
void host_saw(const Clock& clock);

/// LLMC_SIM_LOG names a file with two lines for each operation as it runs, and one for each profiler call of the host.
/// The second line gives its position, the ranges that contain it, and the last operation of each stream that must end
/// before it. "order: 1.7 micro-batch:3/gather_layer:5 after 0.12 1.6": the seventh operation of stream 1, in the fifth
/// range that the host opened, named gather_layer, after the twelfth of stream 0.
void log_line(const std::string& line);
/// NVTX ranges.
void push_range(const std::string& name);
void pop_range();

// Graphs.
void push_graph(const Capture& graph, const std::vector<CUstream_st*>& branches);
/// Returns whether all branches have joined the first.
bool joined(const Capture& capture);

}  // namespace sim
