// Searching the second tree: see approximate_search.h. Engine thread.
#include "kv/approximate_search.h"

#include <algorithm>
#include <ranges>

namespace refrain::kv {
namespace {

// Blocks that hold the beginning of the query, the last of them `last`.
struct Path {
  std::uint32_t exact_blocks = 0;  // then the second tree begins
  NodeId last = kNoNode;
  float divergence = 0;
};

class Walk {
 public:
  Walk(const PrefixTree& tree, const Hash128& space, std::span<const TokenId> query,
       const PrefixMatch& exact, float max_divergence)
      : tree_(tree),
        space_(space),
        query_(query),
        exact_(exact),
        max_divergence_(max_divergence),
        block_size_(tree.block_size()) {}

  ApproximateMatch longest() {
    while (step()) ++depth_;
    // All that is left has the same number of whole blocks; parts of a block decide.
    const bool is_exact_open = depth_ == exact_.full.size();
    ApproximateMatch best;
    std::int64_t most = is_exact_open ? std::int64_t{exact_.partial_tokens} : -1;
    if (is_exact_open && may_begin_here()) consider(here(), best, most);
    for (const Path& path : open_ | std::views::reverse) consider(path, best, most);
    return best;
  }

 private:
  // From the exact path into the second tree, at this depth.
  Path here() const { return Path{depth_, depth_ == 0 ? kNoNode : exact_.full[depth_ - 1], 0}; }
  bool may_begin_here() const {
    if (depth_ > exact_.full.size()) return false;
    return depth_ == 0 || tree_.has_approximate_children(exact_.full[depth_ - 1]);
  }

  // One block further; false if nothing goes on.
  bool step() {
    const auto rest = query_.subspan(std::size_t{depth_} * block_size_);
    if (rest.size() < block_size_) return false;
    const auto block = rest.first(block_size_);
    std::vector<Path> next;
    for (const Path& path : open_) carry_on(path, block, next);
    if (may_begin_here() && next.size() < kOpenPaths) carry_on(here(), block, next);
    if (next.empty() && depth_ >= exact_.full.size()) return false;
    open_ = std::move(next);
    return true;
  }

  void carry_on(const Path& path, std::span<const TokenId> block, std::vector<Path>& next) const {
    const NodeId node = tree_.find_full(Place{space_, path.last, true}, block);
    if (node == kNoNode || tree_.divergence_of(node) > max_divergence_) return;
    next.push_back(
        Path{path.exact_blocks, node, std::max(path.divergence, tree_.divergence_of(node))});
  }

  void consider(const Path& path, ApproximateMatch& best, std::int64_t& most) const {
    const auto rest = query_.subspan(std::size_t{depth_} * block_size_);
    ClosestChild part =
        tree_.closest_child(Place{space_, path.last, true},
                            rest.first(std::min<std::size_t>(rest.size(), block_size_)));
    if (part.common_tokens == 0 || tree_.divergence_of(part.node) > max_divergence_)
      part = ClosestChild{};
    if (std::int64_t{part.common_tokens} <= most) return;
    most = part.common_tokens;
    best = ApproximateMatch{path.exact_blocks, {}, part.node, part.common_tokens, path.divergence};
    if (part.node != kNoNode)
      best.divergence = std::max(best.divergence, tree_.divergence_of(part.node));
    NodeId node = path.last;
    for (std::uint32_t i = depth_; i > path.exact_blocks; --i, node = tree_.parent_of(node))
      best.full.push_back(node);
    std::ranges::reverse(best.full);
  }

  const PrefixTree& tree_;
  const Hash128& space_;
  const std::span<const TokenId> query_;
  const PrefixMatch& exact_;
  const float max_divergence_;
  const std::uint32_t block_size_;
  std::uint32_t depth_ = 0;  // whole blocks looked at
  std::vector<Path> open_;   // the second tree's paths of `depth_` whole blocks
};

}  // namespace

ApproximateMatch find_approximate(const PrefixTree& tree, const Hash128& space,
                                  std::span<const TokenId> tokens, const PrefixMatch& exact,
                                  float max_divergence) {
  if (tree.approximate_count() == 0) return {};
  return Walk(tree, space, tokens, exact, max_divergence).longest();
}

}  // namespace refrain::kv
