// Small kernels, each with one thing that the simulator must do, or detect.
#pragma once

#include "device/cuda/tile_map.h"

namespace llmc {

// Correct ones.
void indices(int* out);                            // out[block * 64 + thread] = 1000 block + thread
void shuffles(float* out);                         // [5, 32]: xor 1, up 2, down 3 of 16, lane 5, and a sum in double
void votes(unsigned* out);                         // [3]: ballot, any, all
void reverse(const int* in, int* out);             // through shared memory, 128 lanes
void groups(int* out);                             // two halves of a block synchronise at separate barriers
void neighbours(unsigned short* out);              // lanes write halves of the same word
void byte_neighbours(unsigned char* values);       // lanes read and write bytes of the same word
void fresh(float* out);                            // initial content of a block's shared memory
void turned_bytes(unsigned char* out, int count);  // count - 1 to 0, mod 256, through block_memory
void scale(float* values, int count, float factor, double plus, long long times, bool really);
void many(int* out, int a, int b, int c, int d, int e, float f, int g, int h, double i);
void ring(float* out);                        // a cluster: each block writes the shared memory of the previous one
void warp_exchange(const int* in, int* out);  // through shared memory, __syncwarp
void fill(float* values, int count, float value);
void add(const float* a, const float* b, float* sum, int count);
void approximations(const float* in, float* powers, float* inverses, int count);  // 2^v and 1 / v
void e4m3_pairs(const float* in, unsigned short* out, int count);                 // [count, 2] -> [count]
void e5m2_pairs(const float* in, unsigned short* out, int count);                 // [count, 2] -> [count]
void turned_copies(const float* in, float* out);  // reverse, by asynchronous copies; every other number is 0
/// Two turns in which both blocks of a cluster copy half of a box of 16 rows to both: [block, turn, 16, 64], then 256
/// elements that are not used. fault: one of these.
enum BoxFault {
  no_fault,
  no_barrier,
  no_fence,
  may_not_have_begun,
  overwrites,
  too_few_bytes,
  arrives_again,
  reads_early,
  warp_does_not_wait,
  wrong_phase,
  warp_is_not_together,
  ends_early,
};
void shared_boxes(TileMap map, unsigned short* out, int fault);
// Faulty ones.
void copies_not_waited_for(const float* in, float* out);
void copies_without_barrier(const float* in, float* out);
void copies_left_behind(const float* in);
void reverse_without_barrier(const int* in, int* out);
void halves_meet_elsewhere(int* out);
void one_group_only(int* out);
void every_block_writes(int* out);
void shuffle_is_no_barrier(const int* in, int* out);
void past_the_end(int* out, int count);
void stores_over_the_end(int count);             // 16 bytes, of which a launch that asks for `count` has 8
void writes_over_an_array(int* out, int lanes);  // of 32 elements
void declares_too_much(float* out);
void reads(const float* in, float* out);
void unaligned_vector(float* out);
void ring_without_barrier(float* out);
void ring_without_release(float* out);
void ring_before_the_others(float* out);
void ring_after_the_end(float* out);
void arrives_twice(float* out);
void waits_without_arriving(float* out);
void reads_lane_that_left(float* out);
void leads_writes_others_read(int* out);

}  // namespace llmc
