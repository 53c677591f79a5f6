// See summary_book.h.
#include "serve/summary_book.h"

namespace refrain::serve {

std::optional<Conclusion> SummaryBook::find(const Hash128& key) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || !found->second->conclusion) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->conclusion;
}

bool SummaryBook::is_being_made(const Hash128& key) const {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  return found != by_key_.end() && !found->second->conclusion;
}

bool SummaryBook::begin(const Hash128& key) {
  std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return false;
  entries_.push_front(Entry{key, std::nullopt});
  by_key_[key] = entries_.begin();
  return true;
}

void SummaryBook::finish(const Hash128& key, Conclusion conclusion) {
  std::lock_guard lock(mutex_);
  auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    entries_.push_front(Entry{key, std::nullopt});
    found = by_key_.emplace(key, entries_.begin()).first;
  }
  Entry& entry = *found->second;
  bytes_ -= entry.bytes();
  entry.conclusion = std::move(conclusion);
  bytes_ += entry.bytes();
  entries_.splice(entries_.begin(), entries_, found->second);
  drop_oldest();
}

void SummaryBook::give_up(const Hash128& key) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || found->second->conclusion) return;
  entries_.erase(found->second);
  by_key_.erase(found);
}

// Those being made stay: their number is bounded by those who make them.
void SummaryBook::drop_oldest() {
  for (auto entry = entries_.end(); bytes_ > max_bytes_ && entry != entries_.begin();) {
    --entry;
    if (!entry->conclusion) continue;
    bytes_ -= entry->bytes();
    by_key_.erase(entry->key);
    entry = entries_.erase(entry);
  }
}

std::size_t SummaryBook::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace refrain::serve
