// PeerState: what the other end of a connection has done so far, seen without reading from it.
#pragma once

#include <poll.h>

namespace refrain::serve {

enum class PeerState {
  kOpen,
  kSendingClosed,  // the client closed its sending side: either half, or the whole connection
  kGone,           // reset: nothing we write arrives
};

inline PeerState peer_state(int socket) {
  pollfd descriptor{.fd = socket, .events = POLLRDHUP, .revents = 0};
  if (poll(&descriptor, 1, 0) <= 0) return PeerState::kOpen;
  if ((descriptor.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return PeerState::kGone;
  return (descriptor.revents & POLLRDHUP) != 0 ? PeerState::kSendingClosed : PeerState::kOpen;
}

}  // namespace refrain::serve
