// Collectives between GPUs, by NCCL.
#include <nccl.h>

#include <cstring>
#include <exception>

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
  int rank = 0, world_size = 1;
  ncclComm_t comm = nullptr;
  int exceptions = std::uncaught_exceptions();

  ~Impl() {
    if (!comm) return;
    // After an error the others may never come to what is under way here: destroying would wait for them.
    if (std::uncaught_exceptions() > exceptions)
      ncclCommAbort(comm);
    else
      ncclCommDestroy(comm);
  }
};

Communicator::Communicator(Device&, const Launch& launch, Rendezvous& rendezvous) {
  if (launch.world_size == 1) return;
  impl_ = std::make_unique<Impl>();
  impl_->rank = launch.rank;
  impl_->world_size = launch.world_size;
  ncclUniqueId id{};
  if (launch.rank == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::string text = rendezvous.broadcast({id.internal, sizeof id.internal}, 0);
  if (text.size() != sizeof id.internal)
    throw Failure(Exit::toolchain, version() + ": rank 0 has another NCCL, whose ids have " +
                                       std::to_string(text.size()) + " bytes and not " +
                                       std::to_string(sizeof id.internal) + "; give all ranks the same NCCL");
  std::memcpy(id.internal, text.data(), text.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  check(ncclCommInitRankConfig(&impl_->comm, launch.world_size, id, launch.rank, &config), "ncclCommInitRankConfig");
}

Communicator::~Communicator() = default;

int Communicator::rank() const { return impl_ ? impl_->rank : 0; }
int Communicator::world_size() const { return impl_ ? impl_->world_size : 1; }

std::string Communicator::description() const {
  if (!impl_) return "1 rank";
  return std::to_string(impl_->world_size) + " ranks, " + version();
}

void Communicator::all_reduce_sum(float* values, std::size_t count, Stream& stream) {
  if (!impl_) return;
  check(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, impl_->comm, stream.handle), "ncclAllReduce");
}

void Communicator::all_reduce_sum(double* values, std::size_t count, Stream& stream) {
  if (!impl_) return;
  check(ncclAllReduce(values, values, count, ncclFloat64, ncclSum, impl_->comm, stream.handle), "ncclAllReduce");
}

void Communicator::reduce_scatter_sum(float* data, std::size_t share, Stream& stream) {
  if (!impl_) return;
  float* mine = data + static_cast<std::size_t>(impl_->rank) * share;  // where NCCL works in place
  check(ncclReduceScatter(data, mine, share, ncclFloat32, ncclSum, impl_->comm, stream.handle), "ncclReduceScatter");
}

void Communicator::all_gather(void* data, std::size_t share, Stream& stream) {
  if (!impl_) return;
  const std::byte* mine = static_cast<std::byte*>(data) + static_cast<std::size_t>(impl_->rank) * share;
  check(ncclAllGather(mine, data, share, ncclUint8, impl_->comm, stream.handle), "ncclAllGather");
}

void Communicator::broadcast(void* data, std::size_t bytes, int root, Stream& stream) {
  if (!impl_) return;
  check(ncclBroadcast(data, data, bytes, ncclUint8, root, impl_->comm, stream.handle), "ncclBroadcast");
}

Starter rank_starter() { return Starter::self; }

}  // namespace llmc
