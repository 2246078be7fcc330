// The training state that a checkpoint reads and writes, wherever it lives: host memory, a device, a snapshot.
#pragma once

#include <cstdint>

namespace llmc {

enum class StateKind { master, exp_avg, exp_avg_sq };

/// Elements of the flat fp32 buffers; ParameterInfo says which belong to which tensor.
class StateAccess {
 public:
  virtual ~StateAccess() = default;
  /// Copies elements [offset, offset + count) to host memory; complete on return.
  virtual void read(StateKind kind, std::int64_t offset, std::int64_t count, float* out) = 0;
  /// Copies host memory to elements [offset, offset + count); `values` may be reused on return.
  virtual void write(StateKind kind, std::int64_t offset, std::int64_t count, const float* values) = 0;
};

/// Three buffers of `elements` floats in host memory, owned by the caller. Out-of-range access is a Failure(internal).
class HostState final : public StateAccess {
 public:
  HostState(float* masters, float* exp_avg, float* exp_avg_sq, std::int64_t elements)
      : buffers_{masters, exp_avg, exp_avg_sq}, elements_(elements) {}
  void read(StateKind kind, std::int64_t offset, std::int64_t count, float* out) override;
  void write(StateKind kind, std::int64_t offset, std::int64_t count, const float* values) override;

 private:
  float* at(StateKind kind, std::int64_t offset, std::int64_t count) const;

  float* buffers_[3];
  std::int64_t elements_;
};

}  // namespace llmc
