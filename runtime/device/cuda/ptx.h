// All instructions without a name in CUDA C++, one function each. There is no inline PTX elsewhere. Simulated devices
// have their own file of this name in plain C++ (tests/sim).
#pragma once

#include "device/cuda/tile_map.h"

/// Operands of a warpgroup's result: 64 columns, four numbers per eight columns.
#define LLMC_RESULTS(d)                                                                                        \
  "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]),     \
      "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), \
      "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), \
      "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), \
      "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3])

namespace llmc {

/// Waits for `threads` threads of the block, whole warps, at barrier `id` from 1 to 15; 0 is __syncthreads().
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Bits of `v` as bf16, rounded to nearest, ties to even. For sm_80 and later, as are the following.
__device__ __forceinline__ unsigned short bf16_bits(float v) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

/// Two bf16 in a word, `low` in the lower half.
__device__ __forceinline__ unsigned bf16_pair(float low, float high) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

/// Bits of `v` as fp16, rounded to nearest, ties to even; from 65520 on infinity.
__device__ __forceinline__ unsigned short f16_bits(float v) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

/// Two fp16 in a word, `low` in the lower half. For sm_80 and later.
__device__ __forceinline__ unsigned f16_pair(float low, float high) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

/// The number of an fp16.
__device__ __forceinline__ float number_of_f16(unsigned short bits) {
  float number;
  asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(bits));
  return number;
}

/// Two e4m3 in 16 bits, `low` in the lower half: rounded to nearest, ties to even, larger numbers to the largest one.
/// For sm_89 and later.
__device__ __forceinline__ unsigned short e4m3_pair(float low, float high) {
  unsigned short bits;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
}

/// Same of e5m2.
__device__ __forceinline__ unsigned short e5m2_pair(float low, float high) {
  unsigned short bits;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
}

/// The four e4m3 in a word times `factor`, a power of two up to 1, rounded to nearest, ties to even. A factor of NaN
/// makes all of them NaN. For sm_89 and later. Products in fp16 are exact where they do not become 0.
__device__ __forceinline__ unsigned scaled_e4m3(unsigned codes, float factor) {
  unsigned factors, scaled;
  asm("cvt.rn.f16x2.f32 %0, %1, %1;" : "=r"(factors) : "f"(factor));
  asm("{\n"
      "  .reg .b16 low, high;\n"
      "  .reg .b32 a, b;\n"
      "  mov.b32 {low, high}, %1;\n"
      "  cvt.rn.f16x2.e4m3x2 a, low;\n"
      "  cvt.rn.f16x2.e4m3x2 b, high;\n"
      "  mul.rn.f16x2 a, a, %2;\n"
      "  mul.rn.f16x2 b, b, %2;\n"
      "  cvt.rn.satfinite.e4m3x2.f16x2 low, a;\n"
      "  cvt.rn.satfinite.e4m3x2.f16x2 high, b;\n"
      "  mov.b32 %0, {low, high};\n"
      "}"
      : "=r"(scaled)
      : "r"(codes), "r"(factors));
  return scaled;
}

/// Empty. In a branch that few lanes or turns take, it keeps the compiler from computing both sides, with all that
/// follows from them, and selecting.
__device__ __forceinline__ void keep_branch() { asm volatile(""); }

/// Returns v. The compiler does not know that, so what follows from it is computed again instead of kept in registers.
__device__ __forceinline__ int opaque(int v) {
  asm volatile("" : "+r"(v));
  return v;
}

/// 2^v within 2 ulp. Results below 2^-126 are 0; infinity and NaN as usual; 2^0 is 1.
__device__ __forceinline__ float exp2_approx(float v) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
  return power;
}

/// 1 / v within 1 ulp. Results below 2^-126 are 0.
__device__ __forceinline__ float reciprocal_approx(float v) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(v));
  return inverse;
}

/// d [16, 8] += a [16, 16] b [16, 8], by a whole warp. Lane 4 r + c holds of d: rows r and r + 8, columns 2 c and 2 c +
/// 1, in this order; of a: pairs of columns from 2 c of both rows, then from 2 c + 8; of b: pairs of rows from 2 c,
/// then from 2 c + 8, of column r.
__device__ __forceinline__ void mma_bf16_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Same of fp16.
__device__ __forceinline__ void mma_f16_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Loads four 8 x 8 matrices of 16-bit elements. Lane 8 m + r of the warp gives the shared address of row r of matrix
/// m, 16 bytes; lane 4 r + c gets columns 2 c and 2 c + 1 of row r of each matrix.
__device__ __forceinline__ void load_matrix_x4(unsigned (&r)[4], const void* shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared)))
               : "memory");
}

/// Same, with each matrix transposed: lane 4 r + c gets rows 2 c and 2 c + 1 of column r.
__device__ __forceinline__ void load_matrix_x4_transposed(unsigned (&r)[4], const void* shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared)))
               : "memory");
}

/// Starts copying kBytes (4, 8 or 16) from global to shared memory, both aligned to that. Copies zeros if !real;
/// `global` is not read then. The data is visible to this thread after wait_for_copies(), to others after a subsequent
/// barrier.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool real) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int bytes = real ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(kBytes), "r"(bytes)
                 : "memory");
  }
}

/// Waits for all copies that this thread has started.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Makes this thread's completed copies to shared memory visible to warpgroup products after the next barrier. For
/// sm_90a, as are the following.
__device__ __forceinline__ void show_to_warpgroups() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Required before a warpgroup's products if anything else has written their registers.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/// Ends a group of products.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Waits for all groups except the last kLater.
template <int kLater>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLater) : "memory");
}

/// Same, for products that write `d`.
template <int kLater>
__device__ __forceinline__ void wgmma_wait(float (&d)[8][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %32;" : LLMC_RESULTS(d) : "n"(kLater) : "memory");
}

/// Descriptor of 16 rows or columns of a tile in shared memory, [64, 64] bf16 and aligned to 1,024 bytes. Rows have 128
/// bytes; eighth p of row r is stored at p ^ r % 8. kDown: of rows [16 step, +16); else of columns [16 step, +16).
template <bool kDown>
__device__ __forceinline__ unsigned long long tile_descriptor(const void* tile, int step) {
  // Fields: address, pitch of eight rows, swizzle of eighths; in units of 16 bytes.
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + step * (kDown ? 2048 : 32);
  return 1ull << 62 | 1024ull / 16 << 32 | 1ull << 16 | (address & 0x3ffff) >> 4;
}

/// Starts d [64, 64] = a b, or += with `adds`, by a warpgroup; each warp holds 16 rows as in mma_bf16_16x8x16. b is
/// part of a tile as tile_descriptor() has it: rows with kDown, else columns, transposed.
template <bool kDown>
__device__ __forceinline__ void wgmma_64x64x16(float (&d)[8][4], const unsigned (&a)[4], const void* tile, int step,
                                               bool adds) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, "
      "%35}, %36, adds, 1, 1, %38;\n"
      "}"
      : LLMC_RESULTS(d)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile_descriptor<kDown>(tile, step)),
        "r"(static_cast<int>(adds)), "n"(kDown));
}

/// Same of columns [16 step, +16) of two tiles: d = a b^T.
__device__ __forceinline__ void wgmma_64x64x16(float (&d)[8][4], const void* a, const void* b, int step, bool adds) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, adds, "
      "1, 1, 0, 0;\n"
      "}"
      : LLMC_RESULTS(d)
      : "l"(tile_descriptor<false>(a, step)), "l"(tile_descriptor<false>(b, step)), "r"(static_cast<int>(adds)));
}

/// Index of this block in its cluster. For sm_90 and later, as are the following.
__device__ __forceinline__ int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Arrives at the barrier of the cluster's threads. Earlier writes are visible to the threads that wait. _relaxed: they
/// are not, and pending memory operations are not waited for.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

/// Waits until all threads have arrived.
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

/// Writes `v` to the variable `shared` of block `rank` of the cluster. A barrier must have ensured that the block has
/// started.
__device__ __forceinline__ void cluster_write(float4* shared, int rank, float4 v) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))), "r"(rank));
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x), "f"(v.y), "f"(v.z),
               "f"(v.w)
               : "memory");
}

/// A barrier in shared memory (mbarrier). It counts phases: one completes with its last arrival and the last byte of
/// the copies that it expects.
struct CopyBarrier {
  unsigned long long state;
};

/// Initialises a barrier of `arrivals` a phase. Others may use it after fence_barrier_init() by this thread and a
/// subsequent barrier of the block, or of the cluster.
__device__ __forceinline__ void init_barrier(CopyBarrier* barrier, int arrivals) {
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))),
      "r"(arrivals)
      : "memory");
}
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Arrives at the barrier, whose phase then also waits for `bytes` of copies. They may complete earlier.
__device__ __forceinline__ void arrive_expecting(CopyBarrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(barrier))),
               "r"(bytes)
               : "memory");
}

/// Arrives at the same barrier of block `rank` of the cluster, which must have initialised it and still run. The warp's
/// products that were waited for happen before copies by those that wait. Other accesses are not ordered between
/// blocks: that takes a fence of the cluster, which waits for all memory operations.
__device__ __forceinline__ void arrive_at(CopyBarrier* barrier, int rank) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))), "r"(rank));
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
}

/// Waits until the barrier's phase of this parity is complete: the first phase has 0. Its copies are visible to this
/// thread and to its warpgroup's products.
__device__ __forceinline__ void wait_for_phase(CopyBarrier* barrier, int parity) {
  unsigned complete;
  do {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(complete)
        : "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))), "r"(parity)
        : "memory");
  } while (!complete);
}

/// Starts copying a box of `map` (device/cuda/tile_map.h) that begins at these coordinates to the same place of shared
/// memory in all blocks of the cluster that have a bit in `blocks`. Elements outside of the tensor are zeros. The
/// bytes, of a whole box, are counted by `barrier` in each of these blocks. Earlier accesses to the destination by
/// others must happen before this.
__device__ __forceinline__ void copy_box(void* shared, const TileMap& map, int column, int head, int token,
                                         int sequence, CopyBarrier* barrier, unsigned short blocks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
      "%3, %4, %5}], [%6], %7;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
      "l"(&map), "r"(column), "r"(head), "r"(token), "r"(sequence),
      "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))), "h"(blocks)
      : "memory");
}

}  // namespace llmc

#undef LLMC_RESULTS
