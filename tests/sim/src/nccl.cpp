// NCCL's calls on simulated devices, one per process: collectives run as work of streams, and meet those of the other
// ranks on a board (board.h). LLMC_SIM_LOG gets a line "nccl: CALL" for each call.
#include <nccl.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "board.h"
#include "collective.h"
#include "guard.h"
#include "memory.h"
#include "stream.h"

using namespace sim;

namespace {

/// LLMC_SIM_NCCL_ERROR=RANK:N: the network breaks in collective N of that rank, counting from 1. 0: never.
std::uint64_t breaking_collective(int rank) {
  int of_rank = 0;
  unsigned long long number = 0;
  const char* text = std::getenv("LLMC_SIM_NCCL_ERROR");
  return text && std::sscanf(text, "%d:%llu", &of_rank, &number) == 2 && of_rank == rank ? number : 0;
}

/// Data needed by a communicator's collectives, which may run, or be dropped, after it is destroyed.
struct Group : Sequence {
  Group(const std::string& path, int rank, int ranks, Board::Result& result)
      : board(path, rank, ranks, result), breaking(breaking_collective(rank)) {}
  void grew() override { board.push(queued); }

  void run(const Collective& collective) {
    const std::uint64_t number = done + 1;
    if (number != breaking) return run_collective(collective, number, board);
    broken = true;
    while (!board.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  Board board;
  const std::uint64_t breaking;
  std::atomic<bool> broken = false;  // and stays in its collective, like NCCL's kernel
};

}  // namespace

/// Real devices work by themselves: a thread runs work that other ranks wait for while this process's host is busy. It
/// runs nothing else, so that work nobody waits for stays undone.
struct ncclComm {
  explicit ncclComm(std::shared_ptr<Group> of) : group(std::move(of)) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the host thread handles signals
    device = std::thread([this] {
      while (!group->board.aborted()) {
        const std::uint64_t demanded = group->board.demanded();
        if (!demanded) continue;
        const Guard guard;
        run_until(*group, demanded);
      }
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~ncclComm() {
    group->board.abort();
    device.join();
  }

  std::shared_ptr<Group> group;
  std::thread device;
  int captured = 0;  // calls so far; ranks prepare a captured call together, and must repeat the same one together
};

namespace {

void log_call(const char* call) { log_line(std::string("nccl: ") + call); }

ncclResult_t enqueue_collective(const char* call, Kind kind, ncclDataType_t type, std::size_t count, int root,
                                const void* send, void* receive, ncclComm_t comm, cudaStream_t stream,
                                ncclRedOp_t operation = ncclSum) {
  const Guard guard;
  log_call(call);
  if (!comm || root < 0 || root >= comm->group->board.ranks()) return ncclInvalidArgument;
  const int captured = stream_of(stream).capture ? ++comm->captured : 0;
  const Collective collective = {kind, type, count, root, operation, send, receive, captured};
  const Board& board = comm->group->board;
  if (count && (!is_device(send) || !is_device(receive))) return ncclInvalidArgument;
  if (count && !placed_well(collective, board.rank(), board.ranks())) return ncclInvalidUsage;
  const auto run = [collective, group = comm->group] { group->run(collective); };
  enqueue(stream_of(stream), collective.name(), run, comm->group);
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  log_call("ncclGetVersion");
  *version = 22809;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    default: return "unknown result code";
  }
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  log_call("ncclGetUniqueId");
  *id = {};
  std::strcpy(id->internal, Board::create().c_str());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  log_call("ncclCommInitRankConfig");
  const char* algorithms = std::getenv("NCCL_ALGO");
  log_line(std::string("nccl: NCCL_ALGO ") + (algorithms ? algorithms : "is not set"));
  if (config->maxCTAs != NCCL_CONFIG_UNDEF_INT) log_line("nccl: maxCTAs " + std::to_string(config->maxCTAs));
  if (ranks < 1 || ranks > Board::kMaxRanks || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  Board::Result result;
  auto group =
      std::make_shared<Group>(std::string(id.internal, strnlen(id.internal, sizeof id.internal)), rank, ranks, result);
  if (result == Board::Result::no_board) return ncclInvalidArgument;
  if (result == Board::Result::taken) return ncclInvalidUsage;
  *comm = new ncclComm(std::move(group));
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  log_call("ncclCommDestroy");
  {
    const Guard guard;
    run_until(*comm->group, comm->group->queued);
  }
  comm->group->board.leave();
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  log_call("ncclCommAbort");
  comm->group->board.abort();  // without the lock, which a thread waiting for the others may hold
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  log_call("ncclMemAlloc");
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* memory) {
  log_call("ncclMemFree");
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  // Not logged: a thread may ask at any time.
  *error = comm->group->broken || comm->group->board.someone_died() ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetLastError(ncclComm_t comm) { return comm->group->broken ? "the simulated network broke" : ""; }
ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return enqueue_collective("ncclAllReduce", Kind::all_reduce, type, count, 0, send, receive, comm, stream, operation);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t share, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return enqueue_collective("ncclReduceScatter", Kind::reduce_scatter, type, share, 0, send, receive, comm, stream,
                            operation);
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t share, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue_collective("ncclAllGather", Kind::all_gather, type, share, 0, send, receive, comm, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue_collective("ncclBroadcast", Kind::broadcast, type, count, root, send, receive, comm, stream);
}

}  // extern "C"
