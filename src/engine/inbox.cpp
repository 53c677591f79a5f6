#include "engine/inbox.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/str.h"

namespace refrain::engine {

Result<RequestId> Inbox::submit(Incoming incoming) {
  RequestId id{};
  {
    std::lock_guard lock(mutex_);
    if (draining_ || stopped_)
      return Error{Code::kUnavailable, "the server is shutting down", "try another server"};
    const bool counts = !incoming.request.gives_way;  // it takes nobody's place in the queue
    std::uint32_t& of_tenant = waiting_by_tenant_[incoming.request.tenant];
    if (counts && (waiting_ >= max_waiting_ || of_tenant >= max_per_tenant_)) {
      const bool own = waiting_ < max_waiting_;
      const std::uint32_t count = own ? of_tenant : waiting_;
      if (of_tenant == 0) waiting_by_tenant_.erase(incoming.request.tenant);
      return Error{
          Code::kQueueFull,
          str_cat(count, own ? " requests of this key wait already" : " requests wait already"),
          "try again later"};
    }
    if (counts) {
      ++of_tenant;
      ++waiting_;
    } else if (of_tenant == 0) {
      waiting_by_tenant_.erase(incoming.request.tenant);
    }
    id = static_cast<RequestId>(next_id_++);
    incoming.request.id = id;
    live_.insert(to_int(id));
    requests_.push_back(std::move(incoming));
  }
  mail_came_.notify_one();
  return id;
}

void Inbox::cancel(RequestId id) {
  {
    std::lock_guard lock(mutex_);
    if (!live_.contains(to_int(id))) return;
    if (std::find(cancelled_.begin(), cancelled_.end(), id) != cancelled_.end()) return;
    cancelled_.push_back(id);
  }
  mail_came_.notify_one();
}

void Inbox::drain() {
  std::lock_guard lock(mutex_);
  draining_ = true;
}

void Inbox::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  mail_came_.notify_all();
}

bool Inbox::drained() const {
  std::lock_guard lock(mutex_);
  return (draining_ || stopped_) && live_.empty();
}

std::uint32_t Inbox::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_;
}

Inbox::Mail Inbox::take() {
  std::lock_guard lock(mutex_);
  return Mail{std::exchange(requests_, {}), std::exchange(cancelled_, {}), stopped_};
}

bool Inbox::has_mail() const {
  std::lock_guard lock(mutex_);
  return has_mail_locked();
}

void Inbox::wait() {
  std::unique_lock lock(mutex_);
  mail_came_.wait(lock, [this] { return has_mail_locked(); });
}

void Inbox::left_waiting(const GenerateRequest& request) {
  if (request.gives_way) return;
  std::lock_guard lock(mutex_);
  const auto found = waiting_by_tenant_.find(request.tenant);
  CHECK(found != waiting_by_tenant_.end() && waiting_ > 0, "more requests left than came");
  --waiting_;
  if (--found->second == 0) waiting_by_tenant_.erase(found);
}

void Inbox::ended(RequestId id) {
  std::lock_guard lock(mutex_);
  live_.erase(to_int(id));
}

}  // namespace refrain::engine
