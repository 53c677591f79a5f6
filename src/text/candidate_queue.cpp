// The two ways of the queue. One caller at a time.
#include "text/candidate_queue.h"

#include <algorithm>
#include <functional>

namespace refrain::text {

void CandidateQueue::reset(std::size_t symbol_count) {
  heap_.clear();
  for (const std::uint32_t rank : ranks_used_) bucket_of_[rank] = kNoBucket;
  ranks_used_.clear();
  buckets_.clear();
  uses_buckets_ = symbol_count > kHeapSymbolsMax;
  if (uses_buckets_ && bucket_of_.empty()) bucket_of_.assign(rank_count_, kNoBucket);
}

void CandidateQueue::push(Candidate candidate) {
  if (uses_buckets_) {
    push_to_bucket(candidate);
  } else {
    push_to_heap((static_cast<std::uint64_t>(candidate.rank) << 32U) |
                 static_cast<std::uint32_t>(candidate.place));
  }
}

CandidateQueue::Candidate CandidateQueue::pop() {
  if (uses_buckets_) return pop_from_bucket();
  const std::uint64_t key = pop_from_heap();
  return {static_cast<std::uint32_t>(key >> 32U), static_cast<std::int32_t>(key & 0xFFFFFFFFU)};
}

void CandidateQueue::push_to_heap(std::uint64_t key) {
  heap_.push_back(key);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
}

std::uint64_t CandidateQueue::pop_from_heap() {
  std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
  const std::uint64_t key = heap_.back();
  heap_.pop_back();
  return key;
}

void CandidateQueue::push_to_bucket(Candidate candidate) {
  std::uint32_t& number = bucket_of_[candidate.rank];
  if (number == kNoBucket) {
    number = static_cast<std::uint32_t>(buckets_.size());
    buckets_.emplace_back();
    ranks_used_.push_back(candidate.rank);
  }
  Bucket& bucket = buckets_[number];
  if (bucket.taken == bucket.places.size() && bucket.late.empty()) {
    // Empty, so its rank is not in the heap; it may be filled and sorted anew.
    bucket.places.clear();
    bucket.taken = 0;
    bucket.opened = false;
    bucket.sorted = true;
    push_to_heap(candidate.rank);
  }
  if (bucket.opened) {
    bucket.late.push_back(candidate.place);
    std::push_heap(bucket.late.begin(), bucket.late.end(), std::greater<>{});
  } else {
    bucket.sorted =
        bucket.sorted && (bucket.places.empty() || bucket.places.back() <= candidate.place);
    bucket.places.push_back(candidate.place);
  }
}

CandidateQueue::Candidate CandidateQueue::pop_from_bucket() {
  const auto rank = static_cast<std::uint32_t>(heap_.front());
  Bucket& bucket = buckets_[bucket_of_[rank]];
  if (!bucket.opened) {
    bucket.opened = true;
    if (!bucket.sorted) std::sort(bucket.places.begin(), bucket.places.end());
  }
  Candidate first{rank, 0};
  const bool places_left = bucket.taken < bucket.places.size();
  if (places_left && (bucket.late.empty() || bucket.places[bucket.taken] <= bucket.late.front())) {
    first.place = bucket.places[bucket.taken++];
  } else {
    std::pop_heap(bucket.late.begin(), bucket.late.end(), std::greater<>{});
    first.place = bucket.late.back();
    bucket.late.pop_back();
  }
  if (bucket.taken == bucket.places.size() && bucket.late.empty()) pop_from_heap();
  return first;
}

}  // namespace refrain::text
