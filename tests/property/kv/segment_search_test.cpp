// Random stored texts over two or three tokens, in blocks of four, and queries pieced together from
// them: many partial, overlapping and repeated matches. Blocks are forgotten in any order in
// between, heads before tails too. Compared with a search that compares everything (A3, A4, A5).
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/str.h"
#include "kv/segment_index.h"
#include "kv/segment_search.h"
#include "support/ledger_fixture.h"
#include "support/naive_segments.h"

namespace refrain::test {
namespace {

constexpr std::uint32_t kBlockSize = 4;
constexpr std::uint32_t kBlockCount = 64;

TokenList any_tokens(int least, int most, int alphabet) {
  const int count = *rc::gen::inRange(least, most + 1);
  TokenList tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(TokenId{*rc::gen::inRange(0, alphabet)});
  return tokens;
}

// A tree and its index, kept in step as the ledger does.
class Store {
 public:
  explicit Store(std::uint64_t base) : index(tree, kBlockCount, base) {}

  void publish(const Hash128& space, const TokenList& tokens) {
    kv::Place place{space, kv::kNoNode};
    for (std::size_t at = 0; at < tokens.size() && !unused_.empty(); at += kBlockSize) {
      const auto part =
          std::span(tokens).subspan(at, std::min<std::size_t>(kBlockSize, tokens.size() - at));
      const kv::Publication published = tree.publish(place, part, unused_.back());
      if (published.outcome != kv::PublishOutcome::kCovered) {
        unused_.pop_back();
        if (published.outcome == kv::PublishOutcome::kExtended)
          unused_.push_back(published.displaced);
        if (tree.is_full(published.node)) index.insert(published.node);
      }
      place.parent = published.node;
    }
    texts_.push_back(tokens);
  }
  void forget_any() {
    const auto nodes = tree.nodes();
    if (nodes.empty()) return;
    const kv::NodeId node = *rc::gen::elementOf(nodes);
    unused_.push_back(tree.block_of(node));
    if (tree.is_full(node)) index.erase(node);
    tree.remove(node);
  }
  // Pieces of stored texts, with and without something between them.
  TokenList any_query(int alphabet) const {
    TokenList query;
    const int pieces = *rc::gen::inRange(1, 6);
    for (int i = 0; i < pieces; ++i) {
      query = joined(query, any_tokens(0, 3, alphabet));
      if (texts_.empty()) continue;
      const TokenList& text = *rc::gen::elementOf(texts_);
      const auto begin = *rc::gen::inRange<std::size_t>(0, text.size());
      const auto end = *rc::gen::inRange<std::size_t>(begin, text.size() + 1);
      query.insert(query.end(), text.begin() + static_cast<std::ptrdiff_t>(begin),
                   text.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return query;
  }

  kv::PrefixTree tree{kBlockSize, kBlockCount};
  kv::SegmentIndex index;

 private:
  std::vector<BlockId> unused_ = [] {
    std::vector<BlockId> all;
    for (std::uint32_t i = 0; i < kBlockCount; ++i) all.push_back(BlockId{i});
    return all;
  }();
  std::vector<TokenList> texts_;
};

std::string show(const std::vector<Interval>& intervals) {
  std::string text;
  for (const auto& [begin, end] : intervals) text += str_cat(" [", begin, ", ", end, ")");
  return text;
}

void check_search(const Store& store, const TokenList& query, const Hash128& space,
                  const kv::SearchLimits& limits, bool is_complete) {
  const std::uint32_t least = *rc::gen::inRange(1U, 12U);
  const NaiveSegments naive(store.tree);
  std::vector<Interval> found;
  std::uint32_t next = 0;
  for (const kv::FoundRun& run :
       kv::find_runs(store.tree, store.index, space, query, least, limits)) {
    if (run.begin < next || run.length() < least || run.end > query.size())
      RC_FAIL("runs overlap, are too short or leave the query");
    next = run.end;
    if (const std::string broken = naive.check_source(space, query, run); !broken.empty())
      RC_FAIL(broken);
    found.emplace_back(run.begin, run.end);
  }
  if (!is_complete) return;
  const auto wanted = naive.find(space, query, least);
  if (found != wanted) RC_FAIL(str_cat("found", show(found), ", the model", show(wanted)));
}

void agrees_with_the_model(const kv::SearchLimits& limits, bool is_complete) {
  const int alphabet = *rc::gen::inRange(1, 4);
  const std::vector<Hash128> spaces{space_of("a"), space_of("b")};
  // With base 1 all orders of the same tokens have one hash.
  Store store(*rc::gen::element(+kv::RollingHash::kBase, std::uint64_t{1}));
  const int steps = *rc::gen::inRange(1, 24);
  for (int step = 0; step < steps; ++step) {
    const Hash128& space = *rc::gen::elementOf(spaces);
    switch (*rc::gen::weightedElement<int>({{4, 0}, {3, 1}, {2, 2}})) {
      case 0:
        store.publish(space, any_tokens(1, 30, alphabet));
        break;
      case 1:
        store.forget_any();
        break;
      default:
        store.publish(space, store.any_query(alphabet));
    }
    const std::string broken = store.tree.verify() + store.index.verify();
    if (!broken.empty()) RC_FAIL(broken);
    check_search(store, store.any_query(alphabet), space, limits, is_complete);
  }
}

TEST(SegmentSearchProperty, FindsExactlyWhatASearchThatComparesEverythingFinds) {
  EXPECT_TRUE(rc::check(
      [] { agrees_with_the_model({.candidates = kBlockCount, .open_runs = kBlockCount}, true); }));
}

TEST(SegmentSearchProperty, WithTheLimitsAllThatIsFoundIsStoredThere) {
  EXPECT_TRUE(rc::check([] {
    const auto limit = *rc::gen::inRange(1U, 9U);
    agrees_with_the_model({.candidates = limit, .open_runs = limit}, false);
  }));
}

}  // namespace
}  // namespace refrain::test
