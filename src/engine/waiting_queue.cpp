#include "engine/waiting_queue.h"

#include <algorithm>
#include <vector>

namespace refrain::engine {

void WaitingQueue::push_back(const std::string& tenant, Sequence& sequence) {
  by_tenant_[tenant].push_back(Entry{&sequence, next_arrival_++});
}

void WaitingQueue::push_front(const std::string& tenant, Sequence& sequence) {
  by_tenant_[tenant].push_front(Entry{&sequence, next_arrival_++});
}

void WaitingQueue::erase(Tenants::iterator tenant, Line::iterator entry) {
  tenant->second.erase(entry);
  if (tenant->second.empty()) by_tenant_.erase(tenant);
}

void WaitingQueue::remove(const std::string& tenant, const Sequence& sequence) {
  const auto line = by_tenant_.find(tenant);
  if (line == by_tenant_.end()) return;
  const auto entry = std::find_if(line->second.begin(), line->second.end(),
                                  [&](const Entry& e) { return e.sequence == &sequence; });
  if (entry != line->second.end()) erase(line, entry);
}

// One call of admit(): which tenants are looked at in which order, and who was refused in it.
class WaitingQueue::Round {
 public:
  Round(WaitingQueue& queue, const std::function<Verdict(Sequence&)>& try_admit)
      : queue_(queue), try_admit_(try_admit) {}

  void run() {
    if (!serve_overdue()) return;
    for (auto& [tenant, line] : queue_.by_tenant_) order_.push_back(tenant);
    std::rotate(order_.begin(),
                std::upper_bound(order_.begin(), order_.end(), queue_.last_admitted_),
                order_.end());
    bool more = true;
    while (more) {
      more = false;
      for (const std::string& tenant : order_) {
        const Next next = try_next_of(tenant);
        if (next == Next::kStop) return;
        more |= next == Next::kTried;
      }
    }
  }

 private:
  enum class Next { kTried, kNothing, kStop };

  // Those that were passed too often come first, and nothing passes them any more.
  bool serve_overdue() {
    while (true) {
      Tenants::iterator best_tenant;
      Line::iterator best;
      bool found = false;
      for (auto tenant = queue_.by_tenant_.begin(); tenant != queue_.by_tenant_.end(); ++tenant)
        for (auto entry = tenant->second.begin(); entry != tenant->second.end(); ++entry)
          if (entry->passed >= kMaxPasses && !waits_for_class(*entry) &&
              (!found || entry->arrival < best->arrival)) {
            best_tenant = tenant;
            best = entry;
            found = true;
          }
      if (!found) return true;
      const Verdict verdict = try_admit_(*best->sequence);
      if (verdict == Verdict::kNotNow || verdict == Verdict::kFull) return false;
      if (verdict == Verdict::kClassFull) {
        class_full_ = true;
      } else {
        queue_.erase(best_tenant, best);
      }
    }
  }

  bool waits_for_class(const Entry& entry) const { return class_full_ && entry.sequence->is_long; }

  Next try_next_of(const std::string& tenant) {
    const auto line = queue_.by_tenant_.find(tenant);
    if (line == queue_.by_tenant_.end()) return Next::kNothing;
    const auto entry = std::find_if(line->second.begin(), line->second.end(), [&](Entry& e) {
      return !waits_for_class(e) &&
             std::find(refused_.begin(), refused_.end(), &e) == refused_.end();
    });
    if (entry == line->second.end()) return Next::kNothing;
    switch (try_admit_(*entry->sequence)) {
      case Verdict::kFull:
        return Next::kStop;
      case Verdict::kNotNow:
        refused_.push_back(&*entry);
        return refused_.size() >= kMaxRefusals ? Next::kStop : Next::kTried;
      case Verdict::kClassFull:
        class_full_ = true;
        return Next::kTried;
      case Verdict::kEnded:
        queue_.erase(line, entry);
        return Next::kTried;
      case Verdict::kAdmitted:
        break;
    }
    queue_.last_admitted_ = tenant;
    queue_.erase(line, entry);
    bool overdue = false;
    for (Entry* passed : refused_) overdue |= ++passed->passed >= kMaxPasses;
    return overdue ? Next::kStop : Next::kTried;
  }

  WaitingQueue& queue_;
  const std::function<Verdict(Sequence&)>& try_admit_;
  std::vector<std::string> order_;
  std::vector<Entry*> refused_;
  bool class_full_ = false;  // nothing long is tried any more
};

void WaitingQueue::admit(const std::function<Verdict(Sequence&)>& try_admit) {
  if (!empty()) Round(*this, try_admit).run();
}

}  // namespace refrain::engine
