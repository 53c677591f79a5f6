// See tenant_board.h.
#include "serve/tenant_board.h"

#include "base/str.h"

namespace refrain::serve {

Result<TenantBoard::Ticket> TenantBoard::enter(const Caller& caller) {
  std::lock_guard lock(mutex_);
  std::uint32_t& waiting = waiting_[caller.tenant];
  if (caller.max_waiting > 0 && waiting >= caller.max_waiting)
    return Error{Code::kQueueFull,
                 str_cat("this API key already has ", waiting, " requests waiting"),
                 "wait for some of them, or raise the key's share"};
  ++waiting;
  return Ticket(this, caller.tenant);
}

void TenantBoard::leave(const std::string& tenant) {
  std::lock_guard lock(mutex_);
  const auto entry = waiting_.find(tenant);
  if (entry != waiting_.end() && --entry->second == 0) waiting_.erase(entry);
}

std::uint32_t TenantBoard::waiting(const std::string& tenant) const {
  std::lock_guard lock(mutex_);
  const auto entry = waiting_.find(tenant);
  return entry == waiting_.end() ? 0 : entry->second;
}

}  // namespace refrain::serve
