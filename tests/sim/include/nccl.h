// Stand-in for NCCL between processes on one machine: the part that runtime/comm/nccl.cpp uses, with NCCL's names and
// meanings. Enumerators have other values.
#pragma once

#include <cstddef>

#include "cuda_runtime_api.h"

using ncclComm_t = struct ncclComm*;
enum ncclResult_t {
  ncclSuccess,
  ncclUnhandledCudaError,
  ncclSystemError,
  ncclInternalError,
  ncclInvalidArgument,
  ncclInvalidUsage,
  ncclRemoteError,
  ncclInProgress,
};
enum ncclDataType_t { ncclUint8, ncclBfloat16, ncclFloat32, ncclFloat64 };
using ncclDataType = ncclDataType_t;
enum ncclRedOp_t { ncclSum, ncclMax = 2 };

struct ncclUniqueId {
  char internal[128];
};
constexpr int NCCL_CONFIG_UNDEF_INT = -2147483647 - 1;
struct ncclConfig_t {
  int maxCTAs;
};
#define NCCL_CONFIG_INITIALIZER {NCCL_CONFIG_UNDEF_INT}

extern "C" {
ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
/// Last error, in NCCL's wording.
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclMemAlloc(void** memory, size_t bytes);
ncclResult_t ncclMemFree(void* memory);
/// ncclRemoteError: a rank's process has exited without destroying its communicator.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t share, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t share, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream);
}
