// Random texts over two tokens in blocks of four, each exact up to some block and approximate
// behind it; blocks are forgotten in any order. What is found in the second tree, and how much of
// its context a run knows, is compared with searches that compare everything (A2, A3, A4).
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/str.h"
#include "kv/approximate_search.h"
#include "kv/known_context.h"
#include "kv/segment_index.h"
#include "kv/segment_search.h"
#include "support/ledger_fixture.h"

namespace refrain::test {
namespace {

constexpr std::uint32_t kBlockSize = 4;
constexpr std::uint32_t kBlockCount = 64;
constexpr float kAny = std::numeric_limits<float>::max();

TokenList any_tokens(int least, int most) {
  TokenList tokens(static_cast<std::size_t>(*rc::gen::inRange(least, most + 1)));
  for (TokenId& token : tokens) token = TokenId{*rc::gen::inRange(0, 2)};
  return tokens;
}

Hash128 always_the_same(const Hash128&, std::span<const TokenId>) {
  return Hash128{1, 2};
}

class Store {
 public:
  explicit Store(kv::PrefixTree::ChainHash hash) : tree(kBlockSize, kBlockCount, hash) {
    for (std::uint32_t i = 0; i < kBlockCount; ++i) unused_.push_back(BlockId{i});
  }

  void publish(const Hash128& space, const TokenList& tokens, std::uint32_t exact_blocks,
               float divergence) {
    kv::Place place{space};
    std::span<const TokenId> rest(tokens);
    for (std::uint32_t i = 0; !rest.empty() && !unused_.empty(); ++i) {
      const auto part = rest.first(std::min<std::size_t>(kBlockSize, rest.size()));
      place.is_approximate = i >= exact_blocks;
      const kv::Publication published =
          tree.publish(place, part, unused_.back(), place.is_approximate ? divergence : 0);
      if (published.outcome != kv::PublishOutcome::kCovered) {
        unused_.pop_back();
        if (published.outcome == kv::PublishOutcome::kExtended)
          unused_.push_back(published.displaced);
        if (is_segment(published.node)) index.insert(published.node);
      }
      place.parent = published.node;
      rest = rest.subspan(part.size());
    }
    texts_.push_back(tokens);
  }
  void forget_any() {
    const auto nodes = tree.nodes();
    if (nodes.empty()) return;
    const kv::NodeId node = *rc::gen::elementOf(nodes);
    unused_.push_back(tree.block_of(node));
    if (is_segment(node)) index.erase(node);
    tree.remove(node);
  }
  // The beginning of a stored text, then anything.
  TokenList any_query() const {
    TokenList query = any_tokens(0, 30);
    if (texts_.empty()) return query;
    const TokenList& text = *rc::gen::elementOf(texts_);
    const auto kept = *rc::gen::inRange<std::size_t>(0, text.size() + 1);
    return joined(TokenList(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(kept)), query);
  }

  kv::PrefixTree tree;
  kv::SegmentIndex index{tree, kBlockCount};

 private:
  bool is_segment(kv::NodeId node) const {
    return tree.is_full(node) && !tree.is_approximate(node);
  }
  std::vector<BlockId> unused_;
  std::vector<TokenList> texts_;
};

// How far one stored node reaches into a query.
struct Reach {
  std::uint32_t tokens = 0;
  std::uint32_t exact_blocks = 0;
  bool is_approximate = false;
};

// Of a node whose path is equal to the query up to a part of the node itself; 0 of others.
Reach reach_of(const kv::PrefixTree& tree, kv::NodeId node, const Hash128& space,
               std::span<const TokenId> query, float max_divergence) {
  if (tree.space_of(node) != space) return {};
  const auto own = tree.tokens_of(node);
  const std::size_t begin = std::size_t{tree.depth_of(node)} * kBlockSize;
  if (begin >= query.size()) return {};
  const auto common = std::ranges::mismatch(own, query.subspan(begin)).in1 - own.begin();
  Reach reach{static_cast<std::uint32_t>(begin) + static_cast<std::uint32_t>(common), 0,
              tree.is_approximate(node)};
  for (kv::NodeId at = node; at != kv::kNoNode; at = tree.parent_of(at)) {
    if (tree.is_detached(at) || tree.divergence_of(at) > max_divergence) return {};
    const auto tokens = query.subspan(std::size_t{tree.depth_of(at)} * kBlockSize);
    if (at != node && !std::ranges::equal(tree.tokens_of(at), tokens.first(kBlockSize))) return {};
    if (at != node && !tree.is_approximate(at)) ++reach.exact_blocks;
  }
  return reach;
}

std::string check_path(const kv::PrefixTree& tree, const kv::PrefixMatch& exact,
                       const kv::ApproximateMatch& found) {
  kv::NodeId parent = found.exact_blocks == 0 ? kv::kNoNode : exact.full.at(found.exact_blocks - 1);
  float largest = 0;
  std::vector<kv::NodeId> nodes = found.full;
  if (found.partial != kv::kNoNode) nodes.push_back(found.partial);
  for (kv::NodeId node : nodes) {
    if (!tree.is_approximate(node)) return "the second tree holds an exact node";
    if (tree.parent_of(node) != parent) return "a path has a gap";
    largest = std::max(largest, tree.divergence_of(node));
    parent = node;
  }
  return largest == found.divergence ? "" : "a path has another divergence";
}

void check_search(const Store& store, const Hash128& space, const TokenList& query) {
  const float max_divergence = *rc::gen::element(kAny, kAny, 0.5F, 0.25F);
  const kv::PrefixMatch exact = store.tree.match(space, query);
  Reach best{static_cast<std::uint32_t>(exact.full.size()) * kBlockSize + exact.partial_tokens};
  const std::uint32_t exact_tokens = best.tokens;
  for (kv::NodeId node : store.tree.nodes()) {
    const Reach reach = reach_of(store.tree, node, space, query, max_divergence);
    if (!reach.is_approximate && reach.tokens > exact_tokens) RC_FAIL("the exact match is short");
    if (!reach.is_approximate || reach.tokens <= exact_tokens) continue;
    if (reach.tokens > best.tokens ||
        (reach.tokens == best.tokens && reach.exact_blocks > best.exact_blocks))
      best = reach;
  }
  const kv::ApproximateMatch found =
      kv::find_approximate(store.tree, space, query, exact, max_divergence);
  std::uint32_t tokens = exact_tokens;
  if (!found.empty()) {
    if (const auto broken = check_path(store.tree, exact, found); !broken.empty()) RC_FAIL(broken);
    tokens = (found.exact_blocks + static_cast<std::uint32_t>(found.full.size())) * kBlockSize +
             found.partial_tokens;
  }
  // Of a part of a block, the stored one that is closest is looked at, whatever it diverges.
  const bool is_complete = max_divergence == kAny;
  if (is_complete ? tokens != best.tokens
                  : tokens > best.tokens || tokens < best.tokens / kBlockSize * kBlockSize)
    RC_FAIL(str_cat("found ", tokens, " tokens, the model ", best.tokens));
  if (is_complete && best.is_approximate && found.exact_blocks != best.exact_blocks)
    RC_FAIL(
        str_cat("of them ", found.exact_blocks, " exact blocks, the model ", best.exact_blocks));
}

kv::SegmentRun run_of(const kv::PrefixTree& tree, const kv::FoundRun& found) {
  kv::SegmentRun run;
  run.length = found.length();
  run.source_begin = tree.position_of(found.last) + static_cast<Position>(found.last_row) + 1 -
                     static_cast<Position>(run.length);
  kv::NodeId node = found.last;
  for (; tree.position_of(node) > run.source_begin; node = tree.parent_of(node))
    run.blocks.insert(run.blocks.begin(), tree.block_of(node));
  run.blocks.insert(run.blocks.begin(), tree.block_of(node));
  return run;
}

// How many blocks above the run are in front of it.
std::uint32_t count_known(const kv::PrefixTree& tree, const kv::SegmentRun& run,
                          const std::set<BlockId>& in_front) {
  std::uint32_t known = 0;
  kv::NodeId above = tree.parent_of(tree.node_of(run.blocks.front()));
  for (; above != kv::kNoNode; above = tree.parent_of(above))
    known += in_front.contains(tree.block_of(above)) ? 1U : 0U;
  return known;
}

void check_context(const Store& store, const Hash128& space, const TokenList& query) {
  kv::ReusePlan plan;
  plan.tokens = query;
  std::set<BlockId> in_front;
  for (kv::NodeId node : store.tree.match(space, query).full) {
    plan.exact_blocks.push_back(store.tree.block_of(node));
    in_front.insert(plan.exact_blocks.back());
  }
  const auto rest = std::span(query).subspan(plan.exact_blocks.size() * kBlockSize);
  for (const kv::FoundRun& found : kv::find_runs(store.tree, store.index, space, rest, kBlockSize))
    plan.runs.push_back(run_of(store.tree, found));
  kv::find_known_context(store.tree, plan);
  std::size_t steps = 0;  // as many as are needed if nothing is skipped
  for (const kv::SegmentRun& run : plan.runs) {
    const std::uint32_t above = static_cast<std::uint32_t>(run.source_begin) / kBlockSize;
    steps += above;
    float wanted = run.source_begin == 0 ? 1.0F : 0.0F;
    if (above > 0)
      wanted =
          static_cast<float>(count_known(store.tree, run, in_front)) / static_cast<float>(above);
    const bool is_complete = steps <= query.size() / kBlockSize * 4;
    if (is_complete ? run.known_context != wanted : run.known_context > wanted)
      RC_FAIL(str_cat("known context ", run.known_context, ", the model ", wanted));
    in_front.insert(run.blocks.begin(), run.blocks.end());
  }
}

void agrees_with_the_model(kv::PrefixTree::ChainHash hash) {
  Store store(hash);
  const std::vector<Hash128> spaces{space_of("a"), space_of("b")};
  const int steps = *rc::gen::inRange(1, 24);
  for (int step = 0; step < steps; ++step) {
    const Hash128& space = *rc::gen::elementOf(spaces);
    if (*rc::gen::inRange(0, 4) == 0) {
      store.forget_any();
    } else {
      const float divergence = *rc::gen::element(0.0F, 0.25F, 0.5F, 1.0F);
      store.publish(space, store.any_query(), *rc::gen::inRange(0U, 6U), divergence);
    }
    const std::string broken = store.tree.verify() + store.index.verify();
    if (!broken.empty()) RC_FAIL(broken);
    check_search(store, space, store.any_query());
    check_context(store, space, store.any_query());
  }
}

TEST(SecondTreeProperty, AgreesWithSearchesThatCompareEverything) {
  EXPECT_TRUE(rc::check([] { agrees_with_the_model(&kv::PrefixTree::default_hash); }));
}

TEST(SecondTreeProperty, EqualHashesAreToldApart) {
  EXPECT_TRUE(rc::check([] { agrees_with_the_model(&always_the_same); }));
}

}  // namespace
}  // namespace refrain::test
