// Checks llmc's declarations of Open MPI against its header.
#include "comm/mpi_abi.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <type_traits>

#ifndef OPEN_MPI
#error "this mpi.h is not Open MPI's"
#endif

namespace llmc {
namespace {

/// Equal, or both pointers.
template <typename A, typename B>
constexpr bool kPassedAlike = std::is_same_v<A, B> || (std::is_pointer_v<A> && std::is_pointer_v<B>);

template <typename A, typename B>
constexpr bool kCalledAlike = false;
template <typename A, typename... As, typename B, typename... Bs>
  requires(sizeof...(As) == sizeof...(Bs))
constexpr bool kCalledAlike<A(As...), B(Bs...)> = kPassedAlike<A, B> && (kPassedAlike<As, Bs> && ...);

static_assert(kCalledAlike<int(void*, int), int(char*, int)> && !kCalledAlike<int(int), int(char*)> &&
              !kCalledAlike<int(int), int(long)> && !kCalledAlike<int(int), int()>);
static_assert(kCalledAlike<decltype(MPI_Init_thread), mpi_abi::InitThread>);
static_assert(kCalledAlike<decltype(MPI_Finalize), mpi_abi::Finalize>);
static_assert(kCalledAlike<decltype(MPI_Get_library_version), mpi_abi::GetLibraryVersion>);
static_assert(kCalledAlike<decltype(MPI_Error_string), mpi_abi::ErrorString>);
static_assert(kCalledAlike<decltype(MPI_Comm_rank), mpi_abi::CommRank>);
static_assert(kCalledAlike<decltype(MPI_Comm_size), mpi_abi::CommSize>);
static_assert(kCalledAlike<decltype(MPI_Comm_set_errhandler), mpi_abi::CommSetErrhandler>);
static_assert(kCalledAlike<decltype(MPI_Bcast), mpi_abi::Bcast>);
static_assert(kCalledAlike<decltype(MPI_Isend), mpi_abi::Isend>);
static_assert(kCalledAlike<decltype(MPI_Irecv), mpi_abi::Irecv>);
static_assert(kCalledAlike<decltype(MPI_Waitall), mpi_abi::Waitall>);
static_assert(MPI_SUCCESS == mpi_abi::kSuccess && MPI_THREAD_FUNNELED == mpi_abi::kThreadFunneled &&
              MPI_MAX_ERROR_STRING <= mpi_abi::kMaxErrorString &&
              MPI_MAX_LIBRARY_VERSION_STRING <= mpi_abi::kMaxVersionString);

TEST(MpiAbi, ObjectsAreWhereTheHeaderHasThem) {
  void* library = dlopen(mpi_abi::kLibrary, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  // mpi.h names the same objects: this program is linked with the library.
  EXPECT_EQ(dlsym(library, mpi_abi::kCommWorld), static_cast<void*>(MPI_COMM_WORLD));
  EXPECT_EQ(dlsym(library, mpi_abi::kByte), static_cast<void*>(MPI_BYTE));
  EXPECT_EQ(dlsym(library, mpi_abi::kErrorsReturn), static_cast<void*>(MPI_ERRORS_RETURN));
  EXPECT_EQ(static_cast<void*>(MPI_STATUSES_IGNORE), mpi_abi::kStatusesIgnore);
}

}  // namespace
}  // namespace llmc
