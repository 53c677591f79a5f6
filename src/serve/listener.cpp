// See listener.h.
#include "serve/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/log.h"
#include "base/str.h"

namespace refrain::serve {
namespace {

constexpr int kBacklog = 1024;
constexpr int kPauseMs = 20;  // between two looks whether there is room again

std::string system_message(int fault) {
  return std::generic_category().message(fault);
}

Error cannot_listen(const std::string& host, std::uint16_t port, int fault) {
  return Error{Code::kUnavailable,
               str_cat("cannot listen on ", host, " port ", port, ": ", system_message(fault)),
               "another program may use it; choose another one with --port", "--port"};
}

std::uint16_t bound_port(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return Error{Code::kInvalidArgument, str_cat("cannot find the address of `", host, "`"), "",
                 "--host"};
  int listening = -1;
  int fault = 0;
  for (const addrinfo* entry = found; entry != nullptr && listening < 0; entry = entry->ai_next) {
    const int candidate = socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (candidate >= 0) setsockopt(candidate, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (candidate >= 0 && bind(candidate, entry->ai_addr, entry->ai_addrlen) == 0 &&
        listen(candidate, kBacklog) == 0) {
      listening = candidate;
    } else {
      fault = errno;
      if (candidate >= 0) close(candidate);
    }
  }
  freeaddrinfo(found);
  if (listening < 0) return cannot_listen(host, port, fault);
  const int wake = eventfd(0, EFD_CLOEXEC);
  if (wake < 0) {
    const Error error = cannot_listen(host, port, errno);
    close(listening);
    return error;
  }
  return std::unique_ptr<Listener>(new Listener(listening, wake, bound_port(listening)));
}

Listener::~Listener() {
  stop();
  if (socket_ >= 0) close(socket_);
  close(wake_);
}

void Listener::start(std::function<void(int)> on_accept, std::function<bool()> has_room) {
  on_accept_ = std::move(on_accept);
  has_room_ = std::move(has_room);
  thread_ = std::thread([this] { run(); });
}

void Listener::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_, &one, sizeof one);
  thread_.join();
  close(socket_);
  socket_ = -1;
}

void Listener::run() {
  for (;;) {
    const bool room = has_room_();
    pollfd waiting[2] = {{.fd = wake_, .events = POLLIN, .revents = 0},
                         {.fd = socket_, .events = POLLIN, .revents = 0}};
    if (poll(waiting, room ? 2 : 1, room ? -1 : kPauseMs) < 0 && errno != EINTR) return;
    if ((waiting[0].revents & POLLIN) != 0) return;
    if (!room || (waiting[1].revents & POLLIN) == 0) continue;
    const int accepted = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted >= 0) {
      const int on = 1;
      setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      on_accept_(accepted);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // Others may give some back; asking again at once would only burn a core.
      log_warn(str_cat("cannot accept a connection: ", system_message(errno)));
      poll(waiting, 1, 5 * kPauseMs);
    }
  }
}

std::size_t make_room_for_connections(std::size_t connections, std::size_t reserve) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return connections;
  const rlim_t wanted = connections + reserve;
  if (files.rlim_cur < wanted) {
    files.rlim_cur = std::min<rlim_t>(wanted, files.rlim_max);
    setrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NOFILE, &files);
  }
  if (files.rlim_cur >= wanted) return connections;
  const std::size_t fits = files.rlim_cur > 2 * reserve ? files.rlim_cur - reserve : reserve / 4;
  log_warn(str_cat("the limit of open files allows ", fits, " connections only"));
  return fits;
}

}  // namespace refrain::serve
