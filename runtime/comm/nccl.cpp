// Collectives between GPUs, by NCCL.
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/collective_log.h"
#include "comm/collectives.h"
#include "comm/launcher.h"
#include "comm/rendezvous.h"
#include "comm/spawn.h"
#include "device/cuda/check.h"
#include "device/cuda/resources.h"
#include "device/cuda/stream.h"
#include "error.h"
#include "host/blocked_signals.h"

namespace llmc {
namespace {

std::string version() {
  int version = 0;  // 22809: 2.28.9
  ncclGetVersion(&version);
  return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  const std::string message = version() + ": " + call + " says \"" + ncclGetErrorString(result) + "\"";
  if (result == ncclRemoteError)
    throw Failure(Exit::peer_lost, message + ". Another rank ended, and its log shows why");
  throw Failure(Exit::toolchain, message + ". Set NCCL_DEBUG=WARN to print the cause");
}

/// NVLink SHARP adds in the switch, in order of arrival. Excludes both NCCL algorithms that use it, before NCCL reads
/// its variables; a user's own choice is kept. Returns text for the description.
std::string choose_algorithms(const CollectiveNeeds& needs) {
  const char* const chosen = std::getenv("NCCL_ALGO");
  if (chosen && *chosen) return std::string(", NCCL_ALGO=") + chosen + " as the environment has it";
  if (!needs.deterministic) return "";
  ::setenv("NCCL_ALGO", "^NVLS,NVLSTree", 1);
  return ", NCCL_ALGO=^NVLS,NVLSTree for deterministic: true";
}

}  // namespace

/// Errors occur while the host waits for a stream that will never finish, so a thread polls for them and ends the
/// process. It does not call ncclCommAbort, which would let the stream continue with sums that were never computed.
class ErrorWatch {
 public:
  ErrorWatch(ncclComm_t comm, Rendezvous& rendezvous) {
    const BlockedSignals blocked;
    thread_ = std::thread([this, comm, &rendezvous] {
      std::unique_lock lock(mutex_);
      const auto over = [this] { return over_; };
      while (!changed_.wait_for(lock, kInterval, over)) {
        const std::string why = error_of(comm);
        if (why.empty()) continue;
        // The failed rank may be about to report the cause, and this one to end because of it.
        if (changed_.wait_for(lock, kFirstWord, over)) return;
        rendezvous.end(why);
      }
    });
  }
  ~ErrorWatch() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{250}, kFirstWord{1000};

  /// Empty: no error.
  static std::string error_of(ncclComm_t comm) {
    ncclResult_t error = ncclSuccess;
    if (ncclCommGetAsyncError(comm, &error) != ncclSuccess || error == ncclSuccess || error == ncclInProgress)
      return "";
    std::string why = version() + ": a collective has failed: \"" + ncclGetErrorString(error) + "\"";
    if (const char* detail = ncclGetLastError(comm); detail && *detail) why += std::string(", ") + detail;
    return why + ". Set NCCL_DEBUG=WARN to print the cause";
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

struct Communicator::Impl {
  Impl(const LauncherInfo& launch, Rendezvous& rendezvous, const CollectiveNeeds& needs)
      : rank(launch.rank),
        world_size(launch.world_size),
        log(rendezvous.collectives()),
        algorithms(choose_algorithms(needs)),
        description(std::to_string(world_size) + " ranks, " + version() + algorithms) {
    ncclUniqueId id{};
    if (rank == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const std::string text = rendezvous.broadcast({id.internal, sizeof id.internal}, 0);
    if (text.size() != sizeof id.internal)
      throw Failure(Exit::toolchain, version() + ": rank 0 has another version of NCCL, whose ids have " +
                                         std::to_string(text.size()) + " bytes, not " +
                                         std::to_string(sizeof id.internal) + ". Give all ranks the same NCCL");
    std::memcpy(id.internal, text.data(), text.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (needs.most_sms > 0) config.maxCTAs = needs.most_sms;  // NCCL_MAX_CTAS takes precedence if set
    {
      const TimeLimit limit = rendezvous.start_limit("NCCL");
      check(ncclCommInitRankConfig(&comm, world_size, id, rank, &config), "ncclCommInitRankConfig");
    }
    watch.emplace(comm, rendezvous);
    int lowest = 0, highest = 0;
    llmc::check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    llmc::check(cudaStreamCreateWithPriority(&own.handle, cudaStreamNonBlocking, highest),
                "cudaStreamCreateWithPriority");
  }

  ~Impl() {
    watch.reset();
    // After an error the other ranks may never reach this rank's pending collectives, and destroying would wait for
    // them.
    if (std::uncaught_exceptions() > exceptions)
      ncclCommAbort(comm);
    else
      ncclCommDestroy(comm);
    if (own.handle) cudaStreamDestroy(own.handle);
    for (void* allocation : memory) ncclMemFree(allocation);
  }

  void all_reduce_sum(void* values, std::size_t count, CollectiveType type, ncclDataType_t nccl_type, Stream& stream) {
    const Launched launched(stream.listener, stream, LaunchKind::collective);
    log->add({CollectiveKind::all_reduce, type, count});
    check(ncclAllReduce(values, values, count, nccl_type, ncclSum, comm, stream.handle), "ncclAllReduce");
  }

  template <typename T>
  void reduce_scatter_sum(T* data, std::size_t share, CollectiveType type, ncclDataType_t nccl_type, Stream& stream) {
    const Launched launched(stream.listener, stream, LaunchKind::collective);
    log->add({CollectiveKind::reduce_scatter, type, share});
    T* mine = data + static_cast<std::size_t>(rank) * share;  // NCCL works in place
    check(ncclReduceScatter(data, mine, share, nccl_type, ncclSum, comm, stream.handle), "ncclReduceScatter");
  }

  const int rank, world_size;
  CollectiveLog* const log;  // for calls queued by the host, which appear in no stream
  const std::string algorithms, description;
  ncclComm_t comm = nullptr;
  std::optional<ErrorWatch> watch;
  Stream own;  // of higher priority, so that its blocks run next when a GEMM has filled the GPU
  Event ready, done;
  std::map<int, Event> marks;
  std::vector<void*> memory;
  const int exceptions = std::uncaught_exceptions();
};

Communicator::Communicator(Device&, const LauncherInfo& launch, Rendezvous& rendezvous, const CollectiveNeeds& needs)
    : impl_(launch.world_size > 1 ? new Impl(launch, rendezvous, needs) : nullptr) {}

Communicator::~Communicator() = default;

int Communicator::rank() const { return impl_ ? impl_->rank : 0; }
int Communicator::world_size() const { return impl_ ? impl_->world_size : 1; }
const char* Communicator::description() const { return impl_ ? impl_->description.c_str() : "1 rank"; }

CollectiveLog* Communicator::collectives() const { return impl_ ? impl_->log : nullptr; }

/// NCCL registers this memory for collectives of captured graphs (NVLink SHARP from NCCL 2.19 on), if the machine
/// supports it. If it cannot be allocated, falls back to the device's own memory, or to its error message.
std::byte* Communicator::allocate(Device& device, std::size_t bytes) {
  void* memory = nullptr;
  if (!impl_ || bytes == 0) return device.allocate(bytes);
  if (ncclMemAlloc(&memory, bytes) != ncclSuccess) {
    cudaGetLastError();
    return device.allocate(bytes);
  }
  impl_->memory.push_back(memory);
  device.zero(memory, bytes);
  return static_cast<std::byte*>(memory);
}

Stream& Communicator::beside(Stream& stream) {
  if (!impl_) return stream;
  impl_->ready.record(stream.handle);
  impl_->ready.hold(impl_->own.handle);
  impl_->own.listener = stream.listener;
  return impl_->own;
}

void Communicator::mark(int mark) {
  if (impl_) impl_->marks[mark].record(impl_->own.handle);
}

void Communicator::wait(int mark, Stream& stream) {
  if (impl_) impl_->marks.at(mark).hold(stream.handle);
}

void Communicator::join(Stream& stream) {
  if (!impl_) return;
  impl_->done.record(impl_->own.handle);
  impl_->done.hold(stream.handle);
}

void Communicator::all_reduce_sum(float* values, std::size_t count, Stream& stream) {
  if (impl_) impl_->all_reduce_sum(values, count, CollectiveType::fp32, ncclFloat32, stream);
}

void Communicator::all_reduce_sum(double* values, std::size_t count, Stream& stream) {
  if (impl_) impl_->all_reduce_sum(values, count, CollectiveType::fp64, ncclFloat64, stream);
}

void Communicator::all_reduce_sum(bf16* values, std::size_t count, Stream& stream) {
  if (impl_) impl_->all_reduce_sum(values, count, CollectiveType::bf16, ncclBfloat16, stream);
}

void Communicator::all_reduce_max(double* values, std::size_t count, Stream& stream) {
  if (!impl_) return;
  const Launched launched(stream.listener, stream, LaunchKind::collective);
  impl_->log->add({CollectiveKind::all_reduce_max, CollectiveType::fp64, count});
  check(ncclAllReduce(values, values, count, ncclFloat64, ncclMax, impl_->comm, stream.handle), "ncclAllReduce");
}

void Communicator::reduce_scatter_sum(float* data, std::size_t share, Stream& stream) {
  if (impl_) impl_->reduce_scatter_sum(data, share, CollectiveType::fp32, ncclFloat32, stream);
}

void Communicator::reduce_scatter_sum(bf16* data, std::size_t share, Stream& stream) {
  if (impl_) impl_->reduce_scatter_sum(data, share, CollectiveType::bf16, ncclBfloat16, stream);
}

void Communicator::all_gather(const void* mine, void* data, std::size_t share, Stream& stream) {
  if (!impl_) return;
  const Launched launched(stream.listener, stream, LaunchKind::collective);
  impl_->log->add({CollectiveKind::all_gather, CollectiveType::bytes, share});
  check(ncclAllGather(mine, data, share, ncclUint8, impl_->comm, stream.handle), "ncclAllGather");
}

void Communicator::broadcast(void* data, std::size_t bytes, int root, Stream& stream) {
  if (!impl_) return;
  const Launched launched(stream.listener, stream, LaunchKind::collective);
  impl_->log->add({CollectiveKind::broadcast, CollectiveType::bytes, bytes});
  check(ncclBroadcast(data, data, bytes, ncclUint8, root, impl_->comm, stream.handle), "ncclBroadcast");
}

Starter rank_starter() { return Starter::self; }

}  // namespace llmc
