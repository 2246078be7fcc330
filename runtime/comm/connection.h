// TCP between the ranks of a run: non-blocking sockets, and messages on them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/wire.h"

namespace llmc {

using MonotonicTime = std::chrono::steady_clock::time_point;

/// Owns a descriptor.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// A host's name or address, and a port.
struct Address {
  std::string host;
  int port;
};

/// Listens at `port` on every interface; 0: a port chosen by the system. Retries an address in use until `until`,
/// because a run that was just killed may still hold it. Throws Failure(usage) with the port.
Socket listen_at(int port, MonotonicTime until);
int port_of(const Socket& listener);

/// Addresses at which other machines may reach this one, loopback last.
std::vector<std::string> own_addresses();
std::string own_host();

/// Milliseconds until `until` for poll(2), rounded up, at least 0.
int poll_timeout(MonotonicTime until);

/// Messages to and from one peer.
class Connection {
 public:
  Connection(Socket socket, std::size_t limit) : socket_(std::move(socket)), reader_(limit) {}
  int fd() const { return socket_.fd(); }
  /// See MessageReader.
  void set_limit(std::size_t limit) { reader_.set_limit(limit); }

  void send(std::shared_ptr<const std::string> bytes) { out_.push_back(std::move(bytes)); }
  void send(Word word, std::string_view body) { send(std::make_shared<const std::string>(encode(word, body))); }
  bool sent() const { return out_.empty(); }
  /// Writes as much as the system accepts now. Returns false if the connection is broken.
  bool flush();

  /// Reads available bytes. Returns false if the peer has closed or the connection is broken; earlier messages can
  /// still be read.
  bool receive();
  /// Same, but discards the bytes.
  bool drop();
  /// Bytes received so far.
  std::uint64_t received() const { return received_; }
  /// Throws WireError.
  std::optional<Message> next() { return reader_.next(); }

  /// Sends the rest, shuts down sending, and waits for the peer to close, so that nothing sent is lost: closing a
  /// socket with unread bytes would reset it.
  void finish(MonotonicTime until);

 private:
  bool read(bool keep);
  Socket socket_;
  MessageReader reader_;
  std::deque<std::shared_ptr<const std::string>> out_;
  std::size_t written_ = 0;  // of out_.front()
  std::uint64_t received_ = 0;
};

/// Next pending connection of the listener.
std::optional<Socket> accept_at(const Socket& listener);

/// Connects, or returns the reason of the failure in `why`.
std::optional<Socket> connect_to(const Address& address, MonotonicTime until, std::string& why);

}  // namespace llmc
