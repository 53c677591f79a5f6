// Inbox: where other threads leave requests and cancellations for the engine thread, and where the
// bounds on waiting requests are kept. The engine thread sleeps here when it has nothing to do.
// Any thread; the lock is never held while anything else is called.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/request.h"

namespace refrain::engine {

struct Incoming {
  GenerateRequest request;
  std::shared_ptr<OutputStream> stream;
  Tick submitted_at = 0;
};

class Inbox {
 public:
  // At most `max_waiting` requests that have not been admitted yet, `max_per_tenant` of one tenant.
  Inbox(std::uint32_t max_waiting, std::uint32_t max_per_tenant)
      : max_waiting_(max_waiting), max_per_tenant_(max_per_tenant) {}

  // ---- callers
  // Gives the request its id. kQueueFull, kUnavailable (draining or stopped).
  Result<RequestId> submit(Incoming incoming);
  // Ignored for ids that are not live.
  void cancel(RequestId id);
  void drain();
  void stop();
  bool drained() const;
  std::uint32_t waiting() const;

  // ---- engine thread
  struct Mail {
    std::vector<Incoming> requests;
    std::vector<RequestId> cancelled;
    bool stop = false;
  };
  Mail take();
  bool has_mail() const;
  // Sleeps until there is mail.
  void wait();
  // A request stopped waiting: it was admitted, or ended before.
  void left_waiting(const GenerateRequest& request);
  // A request sent its last event.
  void ended(RequestId id);

 private:
  bool has_mail_locked() const { return stopped_ || !requests_.empty() || !cancelled_.empty(); }

  const std::uint32_t max_waiting_;
  const std::uint32_t max_per_tenant_;
  mutable std::mutex mutex_;
  std::condition_variable mail_came_;
  std::vector<Incoming> requests_;
  std::vector<RequestId> cancelled_;
  std::unordered_set<std::uint64_t> live_;  // accepted, last event not sent
  std::map<std::string, std::uint32_t> waiting_by_tenant_;
  std::uint32_t waiting_ = 0;
  std::uint64_t next_id_ = 1;
  bool draining_ = false;
  bool stopped_ = false;
};

}  // namespace refrain::engine
