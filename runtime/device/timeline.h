// Interface for listening to each launch of a step that is timed (step/timeline.h). Without a listener a launch costs
// one more branch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "program/hidden.h"

namespace llmc {

/// Kind of a launch. A region's launches come in the plan's order, so kind and position identify each.
enum class LaunchKind : std::uint8_t { kernel, product, attention, memset, collective };

class LaunchListener {
 public:
  /// Called around a named range of the host's work, such as a region; ranges nest. `name` stays valid.
  virtual void enter(const char* name) = 0;
  virtual void leave() = 0;
  /// Called around everything that one call puts on `stream`. `product`: name of a GEMM, which stays valid; else null.
  virtual void begin(Stream& stream, LaunchKind kind, const char* product) = 0;
  virtual void end(Stream& stream) = 0;

 protected:
  ~LaunchListener() = default;
};

/// Marks a launch until the end of its scope.
class Launched {
 public:
  Launched(LaunchListener* listener, Stream& stream, LaunchKind kind, const char* product = nullptr)
      : listener_(listener), stream_(stream) {
    if (listener_) [[unlikely]]
      listener_->begin(stream_, kind, product);
  }
  ~Launched() {
    if (listener_) [[unlikely]]
      listener_->end(stream_);
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

 private:
  LaunchListener* const listener_;
  Stream& stream_;
};

/// Points in time on streams. cpu: the host's clock; cuda: events, waited for only when they are read. One
/// implementation per target.
class Marks {
 public:
  Marks();
  ~Marks();
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  /// Sets a mark after all work now on the stream. Returns its number: 0, 1, ...
  std::size_t set(Stream& stream);
  /// Seconds from mark 0 to this one; waits for both. Accurate to some microseconds on a GPU.
  double seconds(std::size_t mark) const;

 private:
  struct Impl;
  Hidden<Impl> impl_;
};

}  // namespace llmc
