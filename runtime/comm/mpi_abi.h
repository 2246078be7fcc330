// The part of Open MPI's binary interface (libmpi.so.40: versions 4 and 5) that llmc uses, declared here so that a
// trainer builds without mpi.h. tests/unit/comm compares it with mpi.h.
#pragma once

namespace llmc::mpi_abi {

/// MPI_Comm, MPI_Datatype, MPI_Request, MPI_Errhandler: pointers to objects of the library.
using Handle = void*;

inline constexpr const char* kLibrary = "libmpi.so.40";
inline constexpr int kSuccess = 0;
inline constexpr int kThreadFunneled = 1;
inline constexpr int kMaxErrorString = 256;
inline constexpr int kMaxVersionString = 256;
inline constexpr Handle kStatusesIgnore = nullptr;

// Objects that the predefined handles point to.
inline constexpr const char* kCommWorld = "ompi_mpi_comm_world";
inline constexpr const char* kByte = "ompi_mpi_byte";
inline constexpr const char* kErrorsReturn = "ompi_mpi_errors_return";

using InitThread = int(int* argc, char*** argv, int required, int* provided);
using Finalize = int();
using GetLibraryVersion = int(char* version, int* length);
using ErrorString = int(int code, char* text, int* length);
using CommRank = int(Handle comm, int* rank);
using CommSize = int(Handle comm, int* size);
using CommSetErrhandler = int(Handle comm, Handle handler);
using Bcast = int(void* data, int count, Handle type, int root, Handle comm);
using Isend = int(const void* data, int count, Handle type, int to, int tag, Handle comm, Handle* request);
using Irecv = int(void* data, int count, Handle type, int from, int tag, Handle comm, Handle* request);
using Waitall = int(int count, Handle* requests, Handle statuses);

}  // namespace llmc::mpi_abi
