// Controls a trainer whose step stops around each op (runtime/step/probe.h), from llmc's end of the socket.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "step/probe.h"

namespace llmc::float64 {

class TrainerProcess {
 public:
  /// Starts argv[0]; its output goes to `log`. Throws Failure(toolchain) if it cannot be started.
  TrainerProcess(const std::vector<std::string>& argv, const std::filesystem::path& log);
  /// Kills the trainer if it still runs.
  ~TrainerProcess();
  TrainerProcess(const TrainerProcess&) = delete;
  TrainerProcess& operator=(const TrainerProcess&) = delete;

  /// Waits for its next event; nothing if it has ended.
  std::optional<ProbeEvent> next();

  // Valid while it waits for an answer. Throw Failure(internal) if it has ended.
  void read(std::size_t operand, std::int64_t offset, std::span<std::byte> bytes);
  void write(std::size_t operand, std::int64_t offset, std::span<const std::byte> bytes);
  void go_on();

  /// Waits for its end. Returns the exit code, 128 + n after signal n.
  int wait();

 private:
  bool receive(void* data, std::size_t bytes);
  void send(const void* data, std::size_t bytes);

  pid_t child_ = -1;
  int socket_ = -1;
};

}  // namespace llmc::float64
