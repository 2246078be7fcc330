#include "device/cuda/ptx.h"
#include "kernels.h"

namespace llmc {

void indices(int* out) {
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  out[block * static_cast<int>(blockDim.x) + thread] = 1000 * block + thread;
}

void shuffles(float* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const float mine = static_cast<float>(lane);
  out[lane] = __shfl_xor_sync(0xffffffffu, mine, 1);
  out[32 + lane] = __shfl_up_sync(0xffffffffu, mine, 2);
  out[64 + lane] = __shfl_down_sync(0xffffffffu, mine, 3, 16);
  out[96 + lane] = __shfl_sync(0xffffffffu, mine, 5);
  double sum = 0.5 * lane;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  out[128 + lane] = static_cast<float>(sum);
}

void votes(unsigned* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned ballot = __ballot_sync(0xffffffffu, lane % 3 == 0);
  const int any = __any_sync(0xffffffffu, lane == 7), all = __all_sync(0xffffffffu, lane != 7);
  if (lane == 0) out[0] = ballot, out[1] = static_cast<unsigned>(any), out[2] = static_cast<unsigned>(all);
}

void e4m3_pairs(const float* in, unsigned short* out, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 32) out[i] = e4m3_pair(in[2 * i], in[2 * i + 1]);
}

void e5m2_pairs(const float* in, unsigned short* out, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 32) out[i] = e5m2_pair(in[2 * i], in[2 * i + 1]);
}

void reverse(const int* in, int* out) {
  __shared__ int row[128];
  const int lane = static_cast<int>(threadIdx.x);
  row[lane] = in[lane];
  __syncthreads();
  out[lane] = row[127 - lane];
}

void reverse_without_barrier(const int* in, int* out) {
  __shared__ int row[128];
  const int lane = static_cast<int>(threadIdx.x);
  row[lane] = in[lane];
  out[lane] = row[127 - lane];
}

void turned_copies(const float* in, float* out) {
  __shared__ float row[128];
  const int lane = static_cast<int>(threadIdx.x);
  copy_async<4>(row + lane, in + lane, lane % 2 == 0);
  wait_for_copies();
  __syncthreads();
  out[lane] = row[127 - lane];
}

void copies_not_waited_for(const float* in, float* out) {
  __shared__ float row[128];
  const int lane = static_cast<int>(threadIdx.x);
  copy_async<4>(row + lane, in + lane, true);
  __syncthreads();
  out[lane] = row[127 - lane];
  wait_for_copies();
}

void copies_without_barrier(const float* in, float* out) {
  __shared__ float row[128];
  const int lane = static_cast<int>(threadIdx.x);
  copy_async<4>(row + lane, in + lane, true);
  wait_for_copies();
  out[lane] = row[lane ^ 1];
}

void copies_left_behind(const float* in) {
  __shared__ float row[128];
  copy_async<4>(row + threadIdx.x, in + threadIdx.x, true);
}

void groups(int* out) {
  __shared__ int row[128];
  const int lane = static_cast<int>(threadIdx.x), group = lane / 64;
  for (int turn = 0; turn <= group; ++turn) {  // the groups synchronise once and twice
    row[lane] = lane + turn;
    named_barrier(group + 1, 64);
    const int other = row[lane ^ 63];
    named_barrier(group + 1, 64);
    out[lane] = other;
  }
}

void halves_meet_elsewhere(int* out) {
  if (threadIdx.x < 64) {
    __syncthreads();
  } else {
    named_barrier(1, 128);
  }
  out[threadIdx.x] = 0;
}

/// The first group passes its barrier; the second reads the first's data without having synchronised with it.
void one_group_only(int* out) {
  __shared__ int row[128];
  const int lane = static_cast<int>(threadIdx.x), group = lane / 64;
  row[lane] = lane;
  named_barrier(group + 1, 64);
  out[lane] = row[127 - lane];
}

void neighbours(unsigned short* out) { out[threadIdx.x] = static_cast<unsigned short>(threadIdx.x); }

void byte_neighbours(unsigned char* values) {
  values[threadIdx.x] = static_cast<unsigned char>(values[threadIdx.x] + threadIdx.x);
}

void fresh(float* out) {
  __shared__ float value[4];
  if (threadIdx.x == 0) {
    out[blockIdx.x] = value[1];
    value[1] = 1.0f;
  }
}

void scale(float* values, int count, float factor, double plus, long long times, bool really) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count && really) values[i] = values[i] * factor + static_cast<float>(plus) + static_cast<float>(times);
}

void many(int* out, int a, int b, int c, int d, int e, float f, int g, int h, double i) {
  if (threadIdx.x == 0)
    *out = a + 2 * b + 3 * c + 4 * d + 5 * e + static_cast<int>(6 * f) + 7 * g + 8 * h + static_cast<int>(9 * i);
}

void ring(float* out) {
  __shared__ float4 value;
  const int rank = cluster_rank(), size = cluster_size();
  cluster_arrive_relaxed();
  cluster_wait();  // all blocks have started
  if (threadIdx.x == 0)
    cluster_write(&value, (rank + size - 1) % size, make_float4(static_cast<float>(blockIdx.x), 1, 1, 1));
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 0) out[blockIdx.x] = value.x;
}

void ring_without_barrier(float* out) {
  __shared__ float4 value;
  const int rank = cluster_rank(), size = cluster_size();
  cluster_arrive_relaxed();
  cluster_wait();
  if (threadIdx.x == 0)
    cluster_write(&value, (rank + size - 1) % size, make_float4(static_cast<float>(blockIdx.x), 1, 1, 1));
  cluster_arrive();
  if (threadIdx.x == 0) out[blockIdx.x] = value.x;
  cluster_wait();
}

void ring_without_release(float* out) {
  __shared__ float4 value;
  const int rank = cluster_rank(), size = cluster_size();
  cluster_arrive_relaxed();
  cluster_wait();
  if (threadIdx.x == 0)
    cluster_write(&value, (rank + size - 1) % size, make_float4(static_cast<float>(blockIdx.x), 1, 1, 1));
  cluster_arrive_relaxed();
  cluster_wait();
  if (threadIdx.x == 0) out[blockIdx.x] = value.x;
}

void ring_before_the_others(float* out) {
  __shared__ float4 value;
  cluster_arrive();
  cluster_write(&value, 1, make_float4(1, 1, 1, 1));
  cluster_wait();
  out[blockIdx.x] = value.x;
}

void ring_after_the_end(float* out) {
  __shared__ float4 value;
  cluster_arrive_relaxed();
  cluster_wait();
  if (cluster_rank() == 0) return;
  cluster_arrive();
  cluster_wait();  // for the remaining ones: the first block has exited
  cluster_write(&value, 0, make_float4(1, 1, 1, 1));
  out[blockIdx.x] = 1;
}

void arrives_twice(float* out) {
  cluster_arrive();
  cluster_arrive();
  out[blockIdx.x] = 1;
}

void waits_without_arriving(float* out) {
  cluster_wait();
  out[blockIdx.x] = 1;
}

void approximations(const float* in, float* powers, float* inverses, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) powers[i] = exp2_approx(in[i]), inverses[i] = reciprocal_approx(in[i]);
}

void warp_exchange(const int* in, int* out) {
  __shared__ int row[64];
  const int lane = static_cast<int>(threadIdx.x);
  row[lane] = in[lane];
  __syncwarp();
  out[lane] = row[lane ^ 31];
}

void shuffle_is_no_barrier(const int* in, int* out) {
  __shared__ int row[64];
  const int lane = static_cast<int>(threadIdx.x);
  row[lane] = in[lane];
  __shfl_xor_sync(0xffffffffu, lane, 1);
  out[lane] = row[lane ^ 31];
}

void reads_lane_that_left(float* out) {
  if (threadIdx.x == 3) return;
  out[threadIdx.x] = __shfl_sync(0xffffffffu, 1.0f, 3);
}

void every_block_writes(int* out) {
  if (threadIdx.x == 0) *out = static_cast<int>(blockIdx.x);
}

void leads_writes_others_read(int* out) {
  if (threadIdx.x == 0) out[0] = 1;
  out[1 + threadIdx.x] = out[0];
}

extern __shared__ __align__(1024) unsigned char block_memory[];

void turned_bytes(unsigned char* out, int count) {
  const int lane = static_cast<int>(threadIdx.x), lanes = static_cast<int>(blockDim.x);
  for (int i = lane; i < count; i += lanes) block_memory[i] = static_cast<unsigned char>(i);
  __syncthreads();
  for (int i = lane; i < count; i += lanes) out[i] = block_memory[count - 1 - i];
}

void stores_over_the_end(int count) {
  if (threadIdx.x == 0) *reinterpret_cast<int4*>(block_memory + count - 8) = make_int4(1, 2, 3, 4);
}

void past_the_end(int* out, int count) {
  for (int i = static_cast<int>(threadIdx.x); i <= count; i += static_cast<int>(blockDim.x)) out[i] = i;
}

void writes_over_an_array(int* out, int lanes) {
  __shared__ int row[32];
  const int lane = static_cast<int>(threadIdx.x);
  int* const first = row;
  if (lane < lanes) first[lane] = lane;
  __syncthreads();
  if (lane < 32) out[lane] = first[31 - lane];
}

void declares_too_much(float* out) {
  __shared__ float rows[(48 << 10) / 4 + 1];
  rows[threadIdx.x] = 1.0f;
  out[threadIdx.x] = rows[threadIdx.x];
}

void reads(const float* in, float* out) { *out = *in; }

void unaligned_vector(float* out) { *reinterpret_cast<float4*>(out + 1) = make_float4(1, 2, 3, 4); }

void fill(float* values, int count, float value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] = value;
}

void add(const float* a, const float* b, float* sum, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) sum[i] = a[i] + b[i];
}

}  // namespace llmc
