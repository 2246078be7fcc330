// In a trainer that `llmc verify` has built: around each op of the step, llmc reads what the op gets and what it makes
// of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "device/device.h"

namespace llmc {

/// Names, in the trainer's environment, the descriptor of the socket at whose other end llmc is.
inline constexpr char kProbeVariable[] = "LLMC_PROBE";

/// What the trainer says: it is about to run an op, or has done so. `op`: the op's number, counted through all regions.
/// `layer` and `chunk`: 0 where the op's region has none.
struct ProbeEvent {
  std::int32_t op, layer, chunk, done;
};

/// What llmc answers, any number of times, the last time `go_on`. After `read` the trainer sends `bytes` of the operand
/// from `offset` on; after `write` llmc does. Operands are counted through the op's inputs, then its outputs.
struct ProbeRequest {
  enum Kind : std::int32_t { go_on, read, write } kind;
  std::int32_t operand;
  std::int64_t offset, bytes;
};

class Probe {
 public:
  /// Ops do not run from recordings from now on. Throws Failure(usage) where llmc has not started this process.
  explicit Probe(Device& device);

  /// Around an op. Both throw Failure(internal) where llmc is gone.
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
