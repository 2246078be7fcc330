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

std::size_t bytes_of(ncclDataType_t type) { return type == ncclUint8 ? 1 : type == ncclBfloat16 ? 2 : 4; }

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
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* indices) {
  log_line("nccl: ncclCommInitAll");
  if (devices != 1) return ncclInvalidUsage;  // this machine has one GPU, which takes one rank
  if (indices && indices[0] != 0) return ncclInvalidArgument;
  comms[0] = new ncclComm;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  log_line("nccl: ncclCommDestroy");
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  log_line("nccl: ncclCommUserRank");
  *rank = 0;
  return comm ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  log_line("nccl: ncclCommCount");
  *count = 1;
  return comm ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllReduce", "all-reduce", send, receive, count * bytes_of(type), comm, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  if (root != 0) return ncclInvalidArgument;
  return collective("ncclBroadcast", "broadcast", send, receive, count * bytes_of(type), comm, stream);
}

}  // extern "C"
