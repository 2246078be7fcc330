// Collectives between GPUs, by NCCL.
#include <nccl.h>

#include "comm/collectives.h"
#include "device/cuda/stream.h"
#include "error.h"

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
    throw Failure(Exit::peer_lost, message + "; another rank is gone: its own log says why");
  throw Failure(Exit::toolchain, message + "; NCCL_DEBUG=WARN prints the cause");
}

}  // namespace

struct Communicator::Impl {
  ncclComm_t comm = nullptr;
  int rank = 0, world_size = 1;

  ~Impl() {
    if (comm) ncclCommDestroy(comm);
  }
};

Communicator::Communicator(Device&) : impl_(std::make_unique<Impl>()) {}

Communicator::~Communicator() = default;

int Communicator::rank() const { return impl_->rank; }
int Communicator::world_size() const { return impl_->world_size; }

std::string Communicator::description() const {
  if (impl_->world_size == 1) return "1 rank";
  return std::to_string(impl_->world_size) + " ranks, " + version();
}

void Communicator::all_reduce_sum(float* values, std::size_t count, Stream& stream) {
  if (impl_->world_size == 1) return;
  check(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, impl_->comm, stream.handle), "ncclAllReduce");
}

void Communicator::broadcast(void* data, std::size_t bytes, int root, Stream& stream) {
  if (impl_->world_size == 1) return;
  check(ncclBroadcast(data, data, bytes, ncclUint8, root, impl_->comm, stream.handle), "ncclBroadcast");
}

}  // namespace llmc
