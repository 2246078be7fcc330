// Lets llmc read each op's inputs and outputs, in a trainer built by `llmc verify`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "device/device.h"

namespace llmc {

/// Environment variable with the descriptor of the socket whose other end llmc holds.
inline constexpr char kProbeVariable[] = "LLMC_PROBE";

/// Sent by the trainer before it runs an op and after. `op`: number of the op, counted through all regions. `layer` and
/// `chunk`: 0 if the op's region has none.
struct ProbeEvent {
  std::int32_t op, layer, chunk, done;
};

/// Sent by llmc in reply, any number of times; `go_on` is the last. After `read` the trainer sends `bytes` of the
/// operand from `offset` on; after `write` llmc does. Operands are numbered through the op's inputs, then its outputs.
struct ProbeRequest {
  enum Kind : std::int32_t { go_on, read, write } kind;
  std::int32_t operand;
  std::int64_t offset, bytes;
};

class Probe {
 public:
  /// From now on ops do not run from recordings. Throws Failure(usage) if llmc did not start this process.
  explicit Probe(Device& device);

  /// Called before and after an op. Both throw Failure(internal) if llmc has exited.
  void before(int op, std::size_t layer, std::size_t chunk, std::initializer_list<void*> operands);
  void after();

 private:
  void serve(bool done);

  Device& device_;
  int socket_;
  ProbeEvent event_ = {};
  std::vector<std::byte*> operands_;
};

}  // namespace llmc
