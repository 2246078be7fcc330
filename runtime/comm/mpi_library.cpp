#include "comm/mpi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "comm/mpi_abi.h"
#include "error.h"

namespace llmc {
namespace {

using mpi_abi::Handle;

constexpr std::size_t kPiece = std::size_t{1} << 30;  // MPI counts are ints
constexpr int kTag = 0;

void* load() {
  // RTLD_GLOBAL, because Open MPI's own plugins use its symbols. Never unloaded, because it starts threads.
  if (void* library = dlopen(mpi_abi::kLibrary, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE)) return library;
  const std::string why = dlerror();
  const bool mpich = dlopen("libmpich.so.12", RTLD_LAZY) || dlopen("libmpi.so.12", RTLD_LAZY);
  throw Failure(Exit::toolchain,
                fmt::format("several ranks need Open MPI 4 or 5, which does not load: {}. {}", why,
                            mpich ? "This machine's MPI is MPICH or a similar one, which a trainer cannot use. Install "
                                    "Open MPI too (apt-get install openmpi-bin) and start the trainer with its mpirun"
                                  : "Install it with: apt-get install openmpi-bin"));
}

/// Returns whether an Open MPI launcher started this process: its mpirun, or srun --mpi=pmix. PMI alone (srun
/// --mpi=pmi2, MPICH's mpiexec) does not count: MPI_Init would end the process, or treat it as the only one.
bool started_by_mpi() {
  for (const char* name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

/// "Open MPI 4.1.4" from "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, ..."
std::string short_version(std::string_view text) {
  text = text.substr(0, text.find(','));
  const std::size_t v = text.find(" v");
  return v == std::string_view::npos ? std::string(text)
                                     : std::string(text.substr(0, v + 1)) + std::string(text.substr(v + 2));
}

}  // namespace

struct Mpi::Impl {
  void* library = load();
  std::string version = "Open MPI";

  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }
  void* symbol(const char* name) const {
    if (void* found = dlsym(library, name)) return found;
    throw Failure(Exit::toolchain, fmt::format("{} has no {}. Install Open MPI 4 or 5", mpi_abi::kLibrary, name));
  }

  mpi_abi::InitThread* init_thread = function<mpi_abi::InitThread>("MPI_Init_thread");
  mpi_abi::Finalize* finalize = function<mpi_abi::Finalize>("MPI_Finalize");
  mpi_abi::GetLibraryVersion* get_library_version = function<mpi_abi::GetLibraryVersion>("MPI_Get_library_version");
  mpi_abi::ErrorString* error_string = function<mpi_abi::ErrorString>("MPI_Error_string");
  mpi_abi::CommRank* comm_rank = function<mpi_abi::CommRank>("MPI_Comm_rank");
  mpi_abi::CommSize* comm_size = function<mpi_abi::CommSize>("MPI_Comm_size");
  mpi_abi::CommSetErrhandler* comm_set_errhandler = function<mpi_abi::CommSetErrhandler>("MPI_Comm_set_errhandler");
  mpi_abi::Bcast* bcast = function<mpi_abi::Bcast>("MPI_Bcast");
  mpi_abi::Isend* isend = function<mpi_abi::Isend>("MPI_Isend");
  mpi_abi::Irecv* irecv = function<mpi_abi::Irecv>("MPI_Irecv");
  mpi_abi::Waitall* waitall = function<mpi_abi::Waitall>("MPI_Waitall");
  Handle world = symbol(mpi_abi::kCommWorld);
  Handle byte = symbol(mpi_abi::kByte);

  void check(int code, const char* call) const {
    if (code == mpi_abi::kSuccess) return;
    std::array<char, mpi_abi::kMaxErrorString + 1> text{};
    int length = 0;
    error_string(code, text.data(), &length);
    throw Failure(Exit::peer_lost, fmt::format("{}: {} failed with \"{}\". If another rank ended, its log shows why",
                                               version, call, text.data()));
  }
};

Mpi::Mpi(const LauncherInfo& launch) : impl_(std::make_unique<Impl>()) {
  std::array<char, mpi_abi::kMaxVersionString + 1> text{};
  int length = 0;
  impl_->get_library_version(text.data(), &length);
  impl_->version = short_version(text.data());
  const std::string advice = "Start it with Open MPI's mpirun -n N, with srun --mpi=pmix, or alone with --ranks N";
  if (!started_by_mpi())
    throw Failure(
        Exit::usage,
        fmt::format(
            "{} started this process as rank {} of {}, but ranks on CPUs need Open MPI to sum their gradients. {}",
            launch.by, launch.rank, launch.world_size, advice));
  // A waiting rank yields its core, for example to the rank that it waits for: on two busy cores, 23 MB were summed in
  // 2 to 5 ms instead of 43. With one core per rank it costs nothing.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  int provided = 0, rank = 0, size = 1;
  impl_->check(impl_->init_thread(nullptr, nullptr, mpi_abi::kThreadFunneled, &provided), "MPI_Init_thread");
  impl_->check(impl_->comm_set_errhandler(impl_->world, impl_->symbol(mpi_abi::kErrorsReturn)),
               "MPI_Comm_set_errhandler");
  impl_->check(impl_->comm_rank(impl_->world, &rank), "MPI_Comm_rank");
  impl_->check(impl_->comm_size(impl_->world, &size), "MPI_Comm_size");
  if (provided < mpi_abi::kThreadFunneled)
    throw Failure(Exit::toolchain,
                  impl_->version + " was built without threads (MPI_THREAD_FUNNELED). Install another");
  if (rank != launch.rank || size != launch.world_size)
    throw Failure(Exit::usage,
                  fmt::format("{} started this process as rank {} of {}, but {} has it as rank {} of {}. {}", launch.by,
                              launch.rank, launch.world_size, impl_->version, rank, size, advice));
}

Mpi::~Mpi() = default;

const std::string& Mpi::version() const { return impl_->version; }

void Mpi::broadcast(void* data, std::size_t bytes, int root) {
  auto* next = static_cast<std::byte*>(data);
  for (std::size_t size; bytes > 0; next += size, bytes -= size) {
    size = std::min(bytes, kPiece);
    impl_->check(impl_->bcast(next, static_cast<int>(size), impl_->byte, root, impl_->world), "MPI_Bcast");
  }
}

void Mpi::send(Requests& requests, const void* data, std::size_t bytes, int to) {
  auto* next = static_cast<const std::byte*>(data);
  for (std::size_t size; bytes > 0; next += size, bytes -= size) {
    size = std::min(bytes, kPiece);
    requests.push_back(nullptr);
    impl_->check(impl_->isend(next, static_cast<int>(size), impl_->byte, to, kTag, impl_->world, &requests.back()),
                 "MPI_Isend");
  }
}

void Mpi::receive(Requests& requests, void* data, std::size_t bytes, int from) {
  auto* next = static_cast<std::byte*>(data);
  for (std::size_t size; bytes > 0; next += size, bytes -= size) {
    size = std::min(bytes, kPiece);
    requests.push_back(nullptr);
    impl_->check(impl_->irecv(next, static_cast<int>(size), impl_->byte, from, kTag, impl_->world, &requests.back()),
                 "MPI_Irecv");
  }
}

void Mpi::wait(Requests& requests) {
  const int code = impl_->waitall(static_cast<int>(requests.size()), requests.data(), mpi_abi::kStatusesIgnore);
  requests.clear();
  impl_->check(code, "MPI_Waitall");
}

void Mpi::finalize() { impl_->check(impl_->finalize(), "MPI_Finalize"); }

}  // namespace llmc
