// Searching a prompt for stored text: see segment_search.h. Engine thread.
#include "kv/segment_search.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace refrain::kv {
namespace {

// One scan over one query.
class Scan {
 public:
  Scan(const PrefixTree& tree, const SegmentIndex& index, const Hash128& space,
       std::span<const TokenId> query, std::uint32_t min_length, const SearchLimits& limits)
      : tree_(tree),
        index_(index),
        space_(space),
        query_(query),
        min_length_(min_length),
        limits_(limits),
        block_size_(tree.block_size()),
        open_(block_size_) {}

  std::vector<FoundRun> all() {
    if (query_.size() < block_size_) return {};
    std::size_t offset = query_.size() - block_size_;
    std::uint64_t hash = index_.hash().of(query_.subspan(offset));
    while (true) {
      visit(static_cast<std::uint32_t>(offset), hash);
      if (offset == 0) break;
      --offset;
      hash = index_.hash().step_left(hash, query_[offset], query_[offset + block_size_]);
    }
    for (std::uint32_t begin = 0; begin < block_size_; ++begin)
      for (const OpenRun& run : open_[begin]) close(run, begin);
    return std::move(found_);
  }

 private:
  // Whole blocks from `first` (at an offset the list knows) to `last`, which ends at `end`.
  struct OpenRun {
    NodeId first = kNoNode;
    NodeId last = kNoNode;
    std::uint32_t end = 0;
  };

  void visit(std::uint32_t offset, std::uint64_t hash) {
    std::vector<OpenRun>& open = open_[offset % block_size_];
    const auto window = query_.subspan(offset, block_size_);
    if (!open.empty()) carry_on(open, offset, window);
    // Who is new here is shorter than all that go on.
    if (open.size() >= limits_.open_runs) return;
    NodeId node = index_.first(space_, hash);
    for (std::uint32_t i = 0; i < limits_.candidates && node != kNoNode;
         ++i, node = index_.next(node)) {
      if (open.size() >= limits_.open_runs) return;
      const auto is_this = [node](const OpenRun& run) { return run.first == node; };
      if (std::ranges::none_of(open, is_this) && std::ranges::equal(tree_.tokens_of(node), window))
        open.push_back(OpenRun{node, node, offset + block_size_});
    }
  }

  void carry_on(std::vector<OpenRun>& open, std::uint32_t offset, std::span<const TokenId> window) {
    std::erase_if(open, [&](OpenRun& run) {
      const NodeId parent = tree_.parent_of(run.first);
      if (parent != kNoNode && std::ranges::equal(tree_.tokens_of(parent), window)) {
        run.first = parent;
        return false;
      }
      close(run, offset + block_size_);
      return true;
    });
  }

  // A run of whole blocks that begins at `begin` goes no further: only parts of blocks are left.
  void close(const OpenRun& open, std::uint32_t begin) {
    if (open.end - begin + 2 * (block_size_ - 1) < min_length_) return;
    FoundRun run{begin - common_before(open.first, begin), open.end, open.last, block_size_ - 1};
    const auto rest = query_.subspan(run.end);
    const ClosestChild next = tree_.closest_child(
        Place{space_, run.last}, rest.first(std::min<std::size_t>(rest.size(), block_size_)));
    if (next.common_tokens > 0) {
      run.end += next.common_tokens;
      run.last = next.node;
      run.last_row = next.common_tokens - 1;
    }
    if (run.length() >= min_length_) found_.push_back(run);
  }

  // How many tokens in front of `begin` are also the last ones in front of `node`.
  std::uint32_t common_before(NodeId node, std::uint32_t begin) const {
    const NodeId parent = tree_.parent_of(node);
    if (parent == kNoNode) return 0;
    const auto stored = tree_.tokens_of(parent);
    const std::uint32_t most = std::min(block_size_, begin);
    std::uint32_t common = 0;
    while (common < most && stored[block_size_ - 1 - common] == query_[begin - 1 - common])
      ++common;
    return common;
  }

  const PrefixTree& tree_;
  const SegmentIndex& index_;
  const Hash128& space_;
  const std::span<const TokenId> query_;
  const std::uint32_t min_length_;
  const SearchLimits& limits_;
  const std::uint32_t block_size_;
  std::vector<std::vector<OpenRun>> open_;  // [offset % block_size]
  std::vector<FoundRun> found_;
};

void cut_tail(const PrefixTree& tree, FoundRun& run, std::uint32_t end) {
  std::uint32_t count = run.end - end;
  run.end = end;
  while (count > run.last_row) {
    count -= run.last_row + 1;
    run.last = tree.parent_of(run.last);
    run.last_row = tree.block_size() - 1;
  }
  run.last_row -= count;
}

// The part of `run` that no chosen one covers. It is in one piece: what is chosen was longer when
// it was chosen, or is what was left of such a one beside another, so nothing lies in the middle.
void cut(const PrefixTree& tree, const std::map<std::uint32_t, FoundRun>& chosen, FoundRun& run) {
  while (run.begin < run.end) {
    auto after = chosen.upper_bound(run.begin);
    if (after != chosen.begin() && std::prev(after)->second.end > run.begin) {
      run.begin = std::min(run.end, std::prev(after)->second.end);
      continue;
    }
    if (after != chosen.end() && after->first < run.end) {
      cut_tail(tree, run, after->first);
    }
    return;
  }
}

}  // namespace

std::vector<FoundRun> find_runs(const PrefixTree& tree, const SegmentIndex& index,
                                const Hash128& space, std::span<const TokenId> query,
                                std::uint32_t min_length, const SearchLimits& limits) {
  CHECK(min_length > 0, "an empty run is none");
  std::vector<FoundRun> found = Scan(tree, index, space, query, min_length, limits).all();
  std::ranges::sort(found, [](const FoundRun& a, const FoundRun& b) {
    if (a.length() != b.length()) return a.length() > b.length();
    if (a.begin != b.begin) return a.begin > b.begin;
    return a.last < b.last;
  });
  std::map<std::uint32_t, FoundRun> chosen;  // by begin
  for (FoundRun& run : found) {
    cut(tree, chosen, run);
    if (run.length() >= min_length) chosen.emplace(run.begin, run);
  }
  std::vector<FoundRun> runs;
  runs.reserve(chosen.size());
  for (const auto& [begin, run] : chosen) runs.push_back(run);
  return runs;
}

}  // namespace refrain::kv
