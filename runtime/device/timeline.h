// Who hears of each launch of a step while one is timed (step/timeline.h). Otherwise a launch costs one branch more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device.h"

namespace llmc {

/// How a launch is asked for. A region's launches come in the plan's order: with their kinds each is told by its place.
enum class LaunchKind : std::uint8_t { kernel, product, attention, memset, collective };

class LaunchListener {
 public:
  /// Around a named stretch of the host's work, such as a region; they nest. `name` lives on.
  virtual void enter(const char* name) = 0;
  virtual void leave() = 0;
  /// Around what one call puts on `stream`. `product`: the name of a matrix product, which lives on; else null.
  virtual void begin(Stream& stream, LaunchKind kind, const char* product) = 0;
  virtual void end(Stream& stream) = 0;

 protected:
  ~LaunchListener() = default;
};

/// A launch, from here to the end of the block.
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

/// Points in the time of streams' work. cpu: when the host was there; cuda: events, which nothing waits for until they
/// are read. One implementation a target.
class Marks {
 public:
  Marks();
  ~Marks();
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  /// After what is on the stream now. Its number: 0, 1, ...
  std::size_t set(Stream& stream);
  /// Seconds from mark 0 to this one; waits for both. Some microseconds fine on a GPU.
  double seconds(std::size_t mark) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
