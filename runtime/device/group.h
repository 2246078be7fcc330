// Group: the lanes that share a row. Kernels say what happens to the elements of rows; strides, vector widths, tails
// and padding are known here and nowhere else.
//
//   LLMC_BOUNDS(kLanes)                         launch bounds where the target has them
//   LLMC_BOUNDS_RESIDENT(kLanes, 768)           the same, with registers for 768 threads of an SM at once
//   LLMC_KERNEL name(const Act* x, Act* y) {    a kernel; every lane (on cpu: every thread) runs it
//     const Group<kLanes, Act> g;               columns are dealt to lanes in 16-byte vectors of Act
//     for (const int row : g.rows(kRows)) {     this group's share of the rows
//
//   g.row<kCols, kPitch>(x, row)                row `row` of a matrix; <kCols, kPitch, kStride>: rows further apart
//   g.row<kCols>(w)                             a vector
//   g.result<kRows, kCols, kPitch>(y, row)      row `row` of a matrix of kRows rows from 64 bytes on that the kernel
//                                               writes and does not read: on cpu past the caches where they are small
//   g.run(p, count)                             `count` elements, the first at a multiple of 16 bytes
//   g.unaligned(p, count)                       `count` elements from anywhere
//   g.slice<kCols, kSlice>(x, row, part)        columns [part * kSlice, +kSlice) of a row; fewer at its end
//   g.segments<kSegments, kCols, kStep>(p)      column c of segment s is p[s * kStep + c]; kStep 0: the same ones again
//   g.load(row)                                 the row's elements, read now: into registers where they fit
//   g.load_if<kWanted>(row)                     the same, or nothing
//   g.softmax(row)                              e^(v - highest) of each element, a row to read; and .highest, .total
//   g.columns<kCols>()                          one fp32 number a column, zero at first
//   g.indices(), g.nothing()                    the column's number, an int; what is written is lost
//   g.sums<T>(), g.total(sums)                  sums to add to in map(), and their sum
//
//   g.shared_rows(n)                            rows that the groups of a block of threads share; on cpu each has its
//   own g.share(first, last)                        this group's part of the numbers from first to last - 1
//   g.store_shared(out, columns)                out = the sum of what the groups that share have in columns()
//
//   g.sum(rows..., f)                           of f(elements of one column...) over the columns; all lanes get it
//   g.store(out, rows..., f)                    out = f(...), rounded to out's type
//   g.map(rows..., f)                           f(float& for what may be written, float for what is read, ...)
//   g.owns(column), g.leads()                   true on one lane of the group: that of this column; the first
//   g.alone()                                   true in one group of the launch
//
// A row is its memory, row.data[column], except g.segments(). A row of const elements is read; any other one is
// written, and then its padding becomes zero. Elements are fp32 inside f. A row may be both read and written, in place.
// Every reduction has an order fixed by the shapes.
#pragma once

#if defined(__CUDACC__)
#include "device/cuda/group.h"
#else
#include "device/cpu/group.h"
#endif
