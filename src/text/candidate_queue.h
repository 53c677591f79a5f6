// CandidateQueue: which place merges next: the lowest rank, of equal ranks the leftmost. A binary
// heap is best for words; in long runs it would wander through megabytes for each step, so there
// the places are kept in one bucket per rank, sorted when the rank's turn comes, and the heap
// holds ranks only. Both give the same order. A workspace; one caller at a time.
//
//   heap:     (rank, place) (rank, place) ...
//   buckets:  heap of ranks  ->  places of that rank [taken | sorted, to come] + late ones (a heap)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace refrain::text {

class CandidateQueue {
 public:
  struct Candidate {
    std::uint32_t rank = 0;
    std::int32_t place = 0;
  };
  // All ranks are below `rank_count`.
  explicit CandidateQueue(std::size_t rank_count) : rank_count_(rank_count) {}

  // Empties the queue for a run of `symbol_count` symbols.
  void reset(std::size_t symbol_count);
  bool empty() const { return heap_.empty(); }
  void push(Candidate candidate);
  Candidate pop();

 private:
  // More symbols than this go to buckets; about where the heap leaves the fast caches.
  static constexpr std::size_t kHeapSymbolsMax = 1024;
  static constexpr std::uint32_t kNoBucket = 0xFFFFFFFFU;
  struct Bucket {
    std::vector<std::int32_t> places;  // sorted from the first pop on
    std::size_t taken = 0;
    std::vector<std::int32_t> late;  // pushed after the first pop; a heap
    bool opened = false;
    bool sorted = true;
  };
  void push_to_heap(std::uint64_t key);
  std::uint64_t pop_from_heap();
  void push_to_bucket(Candidate candidate);
  Candidate pop_from_bucket();

  std::size_t rank_count_;
  bool uses_buckets_ = false;
  std::vector<std::uint64_t> heap_;       // rank << 32 | place, or ranks of buckets not empty
  std::vector<std::uint32_t> bucket_of_;  // [rank_count] once buckets were used; kNoBucket
  std::vector<Bucket> buckets_;
  std::vector<std::uint32_t> ranks_used_;  // whose bucket_of_ is set
};

}  // namespace refrain::text
