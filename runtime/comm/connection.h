// TCP between the ranks of a run: sockets that never block, and messages on them.
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

/// A place to connect to: a host's name or address.
struct Address {
  std::string host;
  int port;
};

/// Listens at `port` of every interface, 0: one that the system chooses. An address in use is tried again until
/// `until`: a run that was just killed may still hold it. Throws Failure(usage) with the port.
Socket listen_at(int port, MonotonicTime until);
int port_of(const Socket& listener);

/// Addresses at which other machines may reach this one, this machine's own last.
std::vector<std::string> own_addresses();
std::string own_host();

/// Milliseconds until `until` for poll(2), at least 0, rounded up.
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
  /// Writes what the system takes now. False: the connection is broken.
  bool flush();

  /// Reads what has come. False: the peer has closed, or the connection
  /// is broken; what came before can be read.
  bool receive();
  /// The same, and forgets all that came.
  bool drop();
  /// Bytes so far.
  std::uint64_t received() const { return received_; }
  /// Throws WireError.
  std::optional<Message> next() { return reader_.next(); }

  /// Sends the rest, says that no more will come, and waits for the peer to close, so that nothing that was sent is
  /// dropped: closing a socket with unread bytes would reset it.
  void finish(MonotonicTime until);

 private:
  bool read(bool keep);
  Socket socket_;
  MessageReader reader_;
  std::deque<std::shared_ptr<const std::string>> out_;
  std::size_t written_ = 0;  // of out_.front()
  std::uint64_t received_ = 0;
};

/// The next connection that waits at the listener.
std::optional<Socket> accept_at(const Socket& listener);

/// Connects, or says why not in `why`.
std::optional<Socket> connect_to(const Address& address, MonotonicTime until, std::string& why);

}  // namespace llmc
