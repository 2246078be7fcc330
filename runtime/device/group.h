// Group: the lanes that share a row. Kernels say what happens to the elements of rows; strides, vector widths, tails
// and padding are known here and nowhere else.
//
//   LLMC_BOUNDS(kLanes)                         launch bounds where the target has them
//   LLMC_BOUNDS_RESIDENT(kLanes, 768)           the same, with registers for 768 threads of an SM at once
//   LLMC_KERNEL name(const Act* x, Act* y) {    a kernel; every lane (on cpu: every thread) runs it
//     const Group<kLanes, Act> lanes;           columns are dealt to lanes in 16-byte vectors of Act
//     for (const int row : lanes.rows(kRows)) { this group's share of the rows
//
//   lanes.row<kCols, kPitch>(x, row)            row `row` of a matrix; <kCols, kPitch, kStride>: rows further apart
//   lanes.row<kCols>(w)                         a vector
//   lanes.result<kRows, kCols, kPitch>(y, row)  row `row` of a matrix of kRows rows from 64 bytes on that the kernel
//                                               writes and does not read: on cpu past the caches where they are small
//   lanes.run(p, count)                         `count` elements, the first at a multiple of 16 bytes
//   lanes.run_if<kWanted>(p, count)             the same, or nothing
//   lanes.unaligned(p, count)                   `count` elements from anywhere
//   lanes.slice<kCols, kSlice>(x, row, part)    columns [part * kSlice, +kSlice) of a row; fewer at its end
//   lanes.segments<kSegments, kCols, kStep>(p)  column c of segment s is p[s * kStep + c]; kStep 0: the same ones again
//   lanes.load(row)                             the row's elements, read now: into registers where they fit
//   lanes.load_if<kWanted>(row)                 the same, or nothing
//   lanes.load_ahead<kCols, kPitch>(x, row, n)  row `row` of a matrix of n rows, read now; where a cluster shares rows,
//   a
//                                               copy of this group's next one begins. For all of lanes.rows(n), in turn
//   lanes.softmax(row)                          e^(v - highest) of each element, a row to read; and .highest, .total,
//   and
//                                               .weighted: the sum of e^(v - highest) (v - highest)
//   lanes.columns<kCols>()                      one fp32 number a column, zero at first
//   lanes.add_rows<kRows, kCols, kSlice>(columns, x, part)
//                                               columns += each row's slice, in turn; a GPU reads 32 of them at once
//   lanes.indices(), lanes.nothing()            the column's number, an int; what is written is lost
//   lanes.sums<T>(), lanes.total(sums)          sums to add to in map(), and their sum
//
//   lanes.shared_rows(n)                        rows that the groups of a block of threads share; on cpu its own
//   lanes.share(first, last)                    this group's part of the numbers from first to last - 1
//   lanes.store_shared(out, columns)            out = the sum of what the groups that share have in columns()
//
//   lanes.sum(rows..., f)                       of f(elements of one column...) over the columns; all lanes get it
//   lanes.largest(row)                          the largest element; all lanes get it
//   lanes.store(out, rows..., f)                out = f(...), rounded to out's type
//   lanes.map(rows..., f)                       f(float& for what may be written, float for what is read, ...)
//   lanes.owns(column), lanes.leads()           true on one lane of the group: that of this column; the first
//   lanes.alone()                               true in one group of the launch
//
// A row is its memory, row.data[column], except lanes.segments(). A row of const elements is read; any other one is
// written, and then its padding becomes zero. Elements are fp32 inside f. A row may be both read and written, in place.
// Every reduction has an order fixed by the shapes.
#pragma once

#if defined(__CUDACC__)
#include "device/cuda/group.h"
#else
#include "device/cpu/group.h"
#endif
