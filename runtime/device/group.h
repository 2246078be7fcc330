// Group: the lanes that share a row. Kernels state operations on the elements of rows; only Group knows strides, vector
// widths, tails and padding.
//
//   LLMC_BOUNDS(kLanes)                         launch bounds, if the target has them
//   LLMC_BOUNDS_RESIDENT(kLanes, 768)           same, with registers for 768 resident threads per SM
//   LLMC_KERNEL name(const Act* x, Act* y) {    a kernel; every lane (on cpu: every thread) runs it
//     const Group<kLanes, Act> lanes;           columns are dealt to lanes in 16-byte vectors of Act
//     for (const int row : lanes.rows(kRows)) { this group's part of the rows
//
//   lanes.row<kCols, kPitch>(x, row)            row `row` of a matrix; <kCols, kPitch, kStride>: with a row stride
//   lanes.row<kCols>(w)                         a vector
//   lanes.unaligned_row<kCols>(w)               a vector at any address
//   lanes.row_if<kWanted, kCols, kPitch>(x, row), <..., kStride>: same, or nothing
//   lanes.result<kRows, kCols, kPitch>(y, row)  row `row` of a write-only matrix of kRows rows, 64-byte aligned;
//                                               on cpu streaming stores if caches would not hold it
//   lanes.run(p, count)                         `count` elements, the first 16-byte aligned
//   lanes.run_if<kWanted>(p, count)             same, or nothing
//   lanes.block<kMost>(p, count)                same, at most kMost of them, next to which columns<kMost>() may stand
//   lanes.block_if<kWanted, kMost>(p, count)    same, or nothing
//   lanes.split(copy, rest, ties, at, count)    `count` split masters from `at` on, a multiple of 8; in vectors of bf16
//   lanes.split<kMost>(...)                     same, at most kMost of them
//   lanes.masters<kSplit, kMost>(master, copy, rest, ties, at, count)
//                                               these, or elements of `master` from `at` on
//   lanes.unaligned(p, count)                   `count` elements at any address
//   lanes.slice<kCols, kSlice>(x, row, part)    columns [part * kSlice, +kSlice) of a row; fewer at its end
//   lanes.segments<kSegments, kCols, kStep>(p)  column c of segment s is p[s * kStep + c]; kStep 0 repeats one segment
//   lanes.load(row)                             the row's elements, read now: into registers if they fit
//   lanes.load_if<kWanted>(row)                 same, or nothing
//   lanes.load_ahead<kCols, kPitch>(x, row, n)  row `row` of a matrix of n rows, read now. If a cluster shares rows, it
//                                               also starts copying this group's next one. For all of lanes.rows(n),
//                                               in order
//   lanes.softmax(row)                          e^(v - highest) of each element, as a readable row, with .highest,
//                                               .total and .weighted: the sum of e^(v - highest) (v - highest)
//   lanes.columns<kCols>()                      one fp32 number per column, initially zero
//   lanes.columns<kCols, T>()                   one T per column, so rounded; lanes.load() makes them a readable row
//   lanes.columns<kSegments, kCols, T>()        same for the columns of segments
//   lanes.add_rows<kRows, kCols, kSlice>(columns, x, part)
//                                               columns += each row's slice, in order; a GPU reads 32 of them at once
//   lanes.indices(), lanes.nothing()            the column index, an int; a sink that discards writes
//   lanes.sums<T>(), lanes.total(sums)          partial sums to add to in map(), and their total
//   lanes.most(sums)                            the largest of them, which map() keeps as maxima
//
//   lanes.shared_rows(n)                        rows that the groups of a thread block share; on cpu its own
//   lanes.share(first, last)                    this group's part of the indices from first to last - 1
//   lanes.store_shared(out, columns)            out = the sum of columns() over the groups that share rows
//
//   lanes.collected<kMost, kCols>()             memory for the codes of up to kMost rows, of which .row(i) is one; on a
//   GPU
//                                               a part of what the launch asks for
//   lanes.store_transposed<kPiece, kHeight>(y, collected, first, count, scales, shared)
//                                               columns [first, +count) of y, kHeight codes a row: the collected rows
//                                               with one scale in place of each one's own. kPiece: 4, 8 or 16, which
//                                               divides first, count and kHeight
//
//   lanes.sum(rows..., f)                       sum of f(elements of one column...) over the columns, on all lanes
//   lanes.largest(rows..., f)                   the largest f(elements of one column...), on all lanes
//   lanes.store(out, rows..., f)                out = f(...), rounded to out's type
//   lanes.map(rows..., f)                       f(float& for writable rows, float for const ones, ...)
//   lanes.owns(column), lanes.leads()           true on one lane of the group: the column's owner; the first
//   lanes.alone()                               true in one group of the launch
//   lanes.synchronise()                         orders accesses to memory: the group's before it precede those after it
//
// A row is its memory, row.data[column], except lanes.segments(). A row of const elements is read, and so is
// row.read_only(). Any other row is written, and its padding becomes zero. Elements are fp32 inside f. A row may be
// read and written in place. Every reduction has an order fixed by the shapes.
#pragma once

#if defined(__CUDACC__)
#include "device/cuda/group.h"
#else
#include "device/cpu/group.h"
#endif
