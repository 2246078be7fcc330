// NCCL's calls on the simulated device, for one rank: a collective reads what it is given and writes it to where it
// goes. LLMC_SIM_LOG has a line "nccl: CALL" for each call.
#include <nccl.h>

#include <cstring>
#include <string>

#include "guard.h"
#include "shadow.h"
#include "stream.h"

using namespace sim;

struct ncclComm {};

namespace {

std::size_t bytes_of(ncclDataType_t type) {
  return type == ncclUint8 ? 1 : type == ncclBfloat16 ? 2 : type == ncclFloat64 ? 8 : 4;
}

ncclResult_t collective(const char* call, const char* name, const void* send, void* receive, std::size_t bytes,
                        ncclComm_t comm, cudaStream_t stream) {
  const Guard guard;
  log_line(std::string("nccl: ") + call);
  if (!comm || !is_device(send) || !is_device(receive)) return ncclInvalidArgument;
  enqueue(stream_of(stream), name, [=] {
    touch(Access::read, send, bytes);
    touch(Access::write, receive, bytes);
    std::memmove(receive, send, bytes);
  });
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  log_line("nccl: ncclGetVersion");
  *version = 22809;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    default: return "unknown result code";
  }
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  log_line("nccl: ncclGetUniqueId");
  *id = {};
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId, int rank, ncclConfig_t*) {
  log_line("nccl: ncclCommInitRankConfig");
  if (ranks != 1 || rank != 0) return ncclInvalidUsage;  // this machine has one GPU, which takes one rank
  *comm = new ncclComm;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  log_line("nccl: ncclCommDestroy");
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  log_line("nccl: ncclCommAbort");
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllReduce", "all-reduce", send, receive, count * bytes_of(type), comm, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t share, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclReduceScatter", "reduce-scatter", send, receive, share * bytes_of(type), comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t share, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective("ncclAllGather", "all-gather", send, receive, share * bytes_of(type), comm, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  if (root != 0) return ncclInvalidArgument;
  return collective("ncclBroadcast", "broadcast", send, receive, count * bytes_of(type), comm, stream);
}

}  // extern "C"
