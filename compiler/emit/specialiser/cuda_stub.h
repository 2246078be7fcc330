// Stub that Clang includes before CUDA source, because it cannot parse CUDA 13's own headers.
#pragma once

namespace llmc::emit {

/// Function qualifiers, launch bounds, built-in variables, barriers, full-mask and sub-mask shuffles, votes, vector
/// loads, and the float functions that nvcc knows without an #include. Extend it if a kernel or group header needs
/// more. Declarations of kernels.h lack __grid_constant__, which Clang 19 does not know: no source has both one and the
/// kernel's definition.
inline constexpr char kCudaStub[] = R"(#define __CUDACC__ 1
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __grid_constant__
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
typedef unsigned long size_t;
struct llmc_stub_uint3 { unsigned x, y, z; };
extern const __device__ __attribute__((weak)) llmc_stub_uint3 threadIdx, blockIdx, blockDim, gridDim;
struct __align__(8) int2 { int x, y; };
struct __align__(8) uint2 { unsigned x, y; };
struct __align__(8) float2 { float x, y; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
struct __align__(16) float4 { float x, y, z, w; };
inline __device__ int2 make_int2(int x, int y) { return {x, y}; }
inline __device__ uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline __device__ float2 make_float2(float x, float y) { return {x, y}; }
inline __device__ int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline __device__ uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline __device__ float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
__device__ void __syncthreads() __attribute__((convergent));
__device__ void __syncwarp(unsigned mask = 0xffffffffu) __attribute__((convergent));
__device__ void __threadfence();
inline __device__ size_t __cvta_generic_to_shared(const void* p) {
  return (size_t)(const __attribute__((address_space(3))) void*)p;
}
#define LLMC_STUB_SHUFFLES(T) \
  __device__ T __shfl_sync(unsigned mask, T value, int lane, int width = 32) __attribute__((convergent)); \
  __device__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) __attribute__((convergent)); \
  __device__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) __attribute__((convergent)); \
  __device__ T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) __attribute__((convergent));
LLMC_STUB_SHUFFLES(int)
LLMC_STUB_SHUFFLES(unsigned)
LLMC_STUB_SHUFFLES(long long)
LLMC_STUB_SHUFFLES(unsigned long long)
LLMC_STUB_SHUFFLES(float)
LLMC_STUB_SHUFFLES(double)
__device__ int __any_sync(unsigned mask, int predicate) __attribute__((convergent));
__device__ int __all_sync(unsigned mask, int predicate) __attribute__((convergent));
__device__ unsigned __ballot_sync(unsigned mask, int predicate) __attribute__((convergent));
template <class T> __device__ T __ldg(const T* address);
template <class T> __device__ T __ldcs(const T* address);
template <class T> __device__ void __stcs(T* address, T value);
extern "C" {
__device__ float sqrtf(float), rsqrtf(float), fabsf(float), floorf(float), ceilf(float), rintf(float), truncf(float);
__device__ float expf(float), exp2f(float), logf(float), log2f(float), cosf(float), sinf(float), cospif(float), sinpif(float);
__device__ float fmaf(float, float, float), fmaxf(float, float), fminf(float, float), ldexpf(float, int), powf(float, float);
__device__ double sqrt(double), fabs(double), fma(double, double, double), log(double), exp(double), cos(double), sin(double);
__device__ double cospi(double), sinpi(double), ldexp(double, int);
__device__ float __fmaf_rn(float, float, float), __frcp_rn(float), __fsqrt_rn(float), __fdiv_rn(float, float);
__device__ float __fadd_rn(float, float), __fmul_rn(float, float), __fsub_rn(float, float), __int_as_float(int);
__device__ float __uint_as_float(unsigned), __int2float_rn(int), __expf(float), __logf(float), __fdividef(float, float);
__device__ unsigned __float_as_uint(float), __umulhi(unsigned, unsigned), __byte_perm(unsigned, unsigned, unsigned);
__device__ int __float_as_int(float), __clz(int), __popc(unsigned), __ffs(int), __float2int_rn(float);
__device__ unsigned long long __umul64hi(unsigned long long, unsigned long long);
__device__ double __longlong_as_double(long long);
__device__ long long __double_as_longlong(double);
}
inline __device__ bool isfinite(float x) { return __builtin_isfinite(x); }
inline __device__ bool isfinite(double x) { return __builtin_isfinite(x); }
inline __device__ bool isnan(float x) { return __builtin_isnan(x); }
inline __device__ bool isinf(float x) { return __builtin_isinf(x); }
inline __device__ int min(int a, int b) { return a < b ? a : b; }
inline __device__ int max(int a, int b) { return a > b ? a : b; }
inline __device__ long long min(long long a, long long b) { return a < b ? a : b; }
inline __device__ long long max(long long a, long long b) { return a > b ? a : b; }
inline __device__ float min(float a, float b) { return __builtin_fminf(a, b); }
inline __device__ float max(float a, float b) { return __builtin_fmaxf(a, b); }
)";

}  // namespace llmc::emit
