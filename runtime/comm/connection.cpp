#include "comm/connection.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "error.h"

namespace llmc {
namespace {

constexpr int kBacklog = 1024;

/// Returns 0 or errno. One socket serves both address families if the machine has IPv6.
int try_to_listen(int family, int port, Socket& socket) {
  socket = Socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() < 0) return errno;
  const int yes = 1, no = 0;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_in);
  if (family == AF_INET6) {
    if (setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) != 0) return errno;
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    size = sizeof v6;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
  }
  if (bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), size) != 0) return errno;
  return listen(socket.fd(), kBacklog) == 0 ? 0 : errno;
}

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> name{};
  return getnameinfo(address, size, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST) == 0 ? name.data() : "";
}

void send_at_once(const Socket& socket) {
  const int yes = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket listen_at(int port, MonotonicTime until) {
  while (true) {
    Socket socket;
    int error = try_to_listen(AF_INET6, port, socket);
    if (error && error != EADDRINUSE) error = try_to_listen(AF_INET, port, socket);  // the machine has no IPv6
    if (!error) return socket;
    if (error != EADDRINUSE || std::chrono::steady_clock::now() >= until)
      throw Failure(
          Exit::usage,
          fmt::format(
              "rank 0 cannot listen at port {}: {}. {}", port, std::strerror(error),
              error == EADDRINUSE
                  ? "Another program or run uses it. Give this run another MASTER_PORT (the port used is one higher)"
                  : "Give this run another MASTER_PORT"));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

int port_of(const Socket& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> outer, inner;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {"127.0.0.1"};
  for (const ifaddrs* one = list; one; one = one->ifa_next) {
    if (!one->ifa_addr || !(one->ifa_flags & IFF_UP)) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    // A link-local address is useless on another machine without the link's name.
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6*>(one->ifa_addr)->sin6_addr))
      continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    const std::string text = numeric(one->ifa_addr, size);
    if (!text.empty()) (one->ifa_flags & IFF_LOOPBACK ? inner : outer).push_back(text);
  }
  freeifaddrs(list);
  outer.insert(outer.end(), inner.begin(), inner.end());
  return outer;
}

std::string own_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

int poll_timeout(MonotonicTime until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

bool Connection::flush() {
  while (!out_.empty()) {
    const std::string& bytes = *out_.front();
    const ssize_t n = ::send(fd(), bytes.data() + written_, bytes.size() - written_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    written_ += static_cast<std::size_t>(n);
    if (written_ < bytes.size()) continue;
    out_.pop_front();
    written_ = 0;
  }
  return true;
}

bool Connection::receive() { return read(true); }

bool Connection::drop() {
  reader_.clear();
  return read(false);
}

bool Connection::read(bool keep) {
  std::array<char, 1 << 16> buffer;
  for (int reads = 0; reads < 64; ++reads) {  // other peers get their turn then
    const ssize_t n = ::recv(fd(), buffer.data(), buffer.size(), 0);
    if (n > 0) {
      if (keep) reader_.add({buffer.data(), static_cast<std::size_t>(n)});
      received_ += static_cast<std::uint64_t>(n);
      if (n < static_cast<ssize_t>(buffer.size())) return true;
    } else if (n == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
  }
  return true;
}

void Connection::finish(MonotonicTime until) {
  bool said = false;
  std::array<char, 4096> dropped;
  while (true) {
    if (!flush()) return;
    if (sent() && !std::exchange(said, true)) shutdown(fd(), SHUT_WR);
    pollfd wait{fd(), static_cast<short>(said ? POLLIN : POLLIN | POLLOUT), 0};
    const int ready = poll(&wait, 1, poll_timeout(until));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return;
    if (!(wait.revents & ~POLLOUT)) continue;
    const ssize_t n = ::recv(fd(), dropped.data(), dropped.size(), 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

std::optional<Socket> accept_at(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.fd() < 0) return std::nullopt;
  send_at_once(socket);
  return socket;
}

std::optional<Socket> connect_to(const Address& address, MonotonicTime until, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list)) {
    why = gai_strerror(error);
    return std::nullopt;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  for (const addrinfo* one = list; one; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.fd() < 0) continue;
    int error = connect(socket.fd(), one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS || error == EINTR) {
      // An address that drops packets must not keep the others from being tried.
      const auto limit = std::min(until, std::chrono::steady_clock::now() + std::chrono::seconds(3));
      pollfd wait{socket.fd(), POLLOUT, 0};
      int ready = 0;
      while ((ready = poll(&wait, 1, poll_timeout(limit))) < 0 && errno == EINTR) {
      }
      socklen_t size = sizeof error;
      error = ETIMEDOUT;
      if (ready > 0 && getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    }
    if (error == 0) {
      send_at_once(socket);
      return socket;
    }
    why = std::strerror(error);
  }
  return std::nullopt;
}

}  // namespace llmc
