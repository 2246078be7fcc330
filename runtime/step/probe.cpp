#include "step/probe.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "error.h"

namespace llmc {

namespace {

int socket_of_llmc() {
  const char* number = std::getenv(kProbeVariable);
  if (!number)
    throw Failure(
        Exit::usage,
        "this trainer was built by `llmc verify` and is started by it. Use `llmc compile` to build one that trains");
  return std::atoi(number);
}

/// Transfers all bytes or throws Failure.
template <class Byte, class Move>
void move_all(Byte* data, std::size_t bytes, Move move) {
  while (bytes > 0) {
    const ssize_t moved = move(data, bytes);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) throw Failure(Exit::internal, "the llmc that verifies this trainer has ended");
    data += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
}

void send_all(int socket, const void* data, std::size_t bytes) {
  move_all(static_cast<const std::byte*>(data), bytes,
           [socket](const std::byte* from, std::size_t n) { return send(socket, from, n, MSG_NOSIGNAL); });
}

void receive_all(int socket, void* data, std::size_t bytes) {
  move_all(static_cast<std::byte*>(data), bytes,
           [socket](std::byte* to, std::size_t n) { return recv(socket, to, n, 0); });
}

}  // namespace

Probe::Probe(Device& device) : device_(device), socket_(socket_of_llmc()) {
  if (device_.runs_ahead()) device_.profile(true);
}

void Probe::before(int op, std::size_t layer, std::size_t chunk, std::initializer_list<void*> operands) {
  event_ = {op, static_cast<std::int32_t>(layer), static_cast<std::int32_t>(chunk), 0};
  operands_.clear();
  for (void* operand : operands) operands_.push_back(static_cast<std::byte*>(operand));
  serve(false);
}

void Probe::after() { serve(true); }

void Probe::serve(bool done) {
  event_.done = done;
  device_.synchronize();
  send_all(socket_, &event_, sizeof event_);
  std::vector<std::byte> bytes;
  while (true) {
    ProbeRequest request;
    receive_all(socket_, &request, sizeof request);
    if (request.kind == ProbeRequest::go_on) return;
    std::byte* place = operands_.at(static_cast<std::size_t>(request.operand)) + request.offset;
    bytes.resize(static_cast<std::size_t>(request.bytes));
    if (request.kind == ProbeRequest::read) {
      device_.copy_out(bytes.data(), place, bytes.size());
      device_.synchronize();
      send_all(socket_, bytes.data(), bytes.size());
    } else {
      receive_all(socket_, bytes.data(), bytes.size());
      device_.copy_in(place, bytes.data(), bytes.size());
      device_.synchronize();
    }
  }
}

}  // namespace llmc
