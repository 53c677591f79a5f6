// Planning in the ledger: what a prompt can reuse, and whether that fits. Const: nothing here
// changes a block. Engine thread.
#include <algorithm>
#include <ranges>
#include <unordered_set>

#include "kv/approximate_search.h"
#include "kv/known_context.h"
#include "kv/ledger_impl.h"

namespace refrain::kv {
namespace {

// The last token is always computed: its logits choose the next one.
std::span<const TokenId> reusable(const TokenList& tokens) {
  return std::span(tokens).first(tokens.empty() ? 0 : tokens.size() - 1);
}

std::vector<Span> spans_of(const ReusePlan& plan) {
  std::vector<Span> spans;
  Position next = 0;
  const auto add = [&](Position end, Provenance provenance) {
    if (end > next) spans.push_back(Span{next, end, provenance});
    next = std::max(next, end);
  };
  add(static_cast<Position>(plan.exact_tokens), Provenance::kExact);
  add(static_cast<Position>(plan.prefix_tokens()), Provenance::kApproximate);
  for (const SegmentRun& run : plan.runs) {
    add(run.begin, Provenance::kFresh);
    add(run.end(), Provenance::kMoved);
  }
  add(static_cast<Position>(plan.tokens.size()), Provenance::kFresh);
  return spans;
}

}  // namespace

ReusePlan Ledger::Impl::plan(const CacheSpace& space, const TokenList& tokens,
                             const ReuseAllowance& allowance) const {
  ReusePlan plan;
  plan.space = space;
  plan.tokens = tokens;
  plan.reason = MissReason::kDisabled;
  if (options_.prefix_cache) {
    plan_prefix(plan, allowance);
    if (allowance.scope == ReuseScope::kSegments) plan_runs(plan);
  }
  plan.spans = spans_of(plan);
  return plan;
}

void Ledger::Impl::plan_prefix(ReusePlan& plan, const ReuseAllowance& allowance) const {
  const auto tokens = reusable(plan.tokens);
  PrefixMatch match = tree_.match(plan.space, tokens);
  const std::size_t common = match.full.size() * options_.block_size + match.partial_tokens;
  match.partial_tokens -= match.partial_tokens % options_.reuse_step_tokens;
  if (match.partial_tokens == 0) match.partial = kNoNode;
  for (NodeId node : match.full) plan.exact_blocks.push_back(tree_.block_of(node));
  if (match.partial != kNoNode) plan.partial_block = tree_.block_of(match.partial);
  plan.partial_tokens = match.partial_tokens;
  plan.exact_tokens =
      static_cast<std::uint32_t>(match.full.size()) * options_.block_size + match.partial_tokens;
  if (allowance.scope == ReuseScope::kSegments)
    go_on_approximately(plan, match, allowance.max_divergence);
  if (std::max<std::size_t>(plan.prefix_tokens(), common) == tokens.size()) {
    plan.reason = MissReason::kNone;
  } else if (common == 0) {
    plan.reason = MissReason::kCold;
  } else {
    plan.reason = match.something_follows ? MissReason::kDiverged : MissReason::kEnded;
  }
  if (plan.prefix_tokens() > 0 &&
      plan.prefix_tokens() < std::uint64_t{options_.min_match_blocks} * options_.block_size) {
    plan.exact_blocks.clear();
    plan.approximate_blocks.clear();
    plan.partial_tokens = plan.exact_tokens = plan.approximate_tokens = 0;
    plan.divergence = 0;
    plan.reason = MissReason::kShort;
  }
}

// Where the second tree reaches further than the exact one.
void Ledger::Impl::go_on_approximately(ReusePlan& plan, const PrefixMatch& exact,
                                       float max_divergence) const {
  const ApproximateMatch found =
      find_approximate(tree_, plan.space, reusable(plan.tokens), exact, max_divergence);
  if (found.empty()) return;
  plan.exact_blocks.resize(found.exact_blocks);
  plan.exact_tokens = found.exact_blocks * options_.block_size;
  for (NodeId node : found.full) plan.approximate_blocks.push_back(tree_.block_of(node));
  plan.partial_tokens = found.partial_tokens;
  plan.partial_block = found.partial == kNoNode ? BlockId{} : tree_.block_of(found.partial);
  plan.approximate_tokens =
      static_cast<std::uint32_t>(found.full.size()) * options_.block_size + found.partial_tokens;
  plan.divergence = found.divergence;
}

// Behind the prefix only: what stands at its old place behind its old text is exact already.
void Ledger::Impl::plan_runs(ReusePlan& plan) const {
  const std::uint64_t least = std::max<std::uint64_t>(
      kMinRunTokens, std::uint64_t{options_.min_match_blocks} * options_.block_size);
  const auto rest = reusable(plan.tokens).subspan(plan.prefix_tokens());
  if (least > rest.size()) return;
  for (const FoundRun& found :
       find_runs(tree_, segments_, plan.space, rest, static_cast<std::uint32_t>(least)))
    plan.runs.push_back(segment_run(found, plan.prefix_tokens()));
  if (!plan.runs.empty()) find_known_context(tree_, plan);
}

SegmentRun Ledger::Impl::segment_run(const FoundRun& found, std::uint32_t shift) const {
  SegmentRun run;
  run.begin = static_cast<Position>(shift + found.begin);
  run.length = found.length();
  const Position source_end =
      tree_.position_of(found.last) + static_cast<Position>(found.last_row) + 1;
  run.source_begin = source_end - static_cast<Position>(run.length);
  run.first_row = static_cast<std::uint32_t>(run.source_begin) % options_.block_size;
  NodeId node = found.last;
  for (; tree_.position_of(node) > run.source_begin; node = tree_.parent_of(node))
    run.blocks.push_back(tree_.block_of(node));
  run.blocks.push_back(tree_.block_of(node));
  std::ranges::reverse(run.blocks);
  return run;
}

std::uint32_t Ledger::Impl::blocks_for(std::uint32_t token_count) const {
  return token_count / options_.block_size + (token_count % options_.block_size != 0 ? 1 : 0);
}

// Cached blocks that a plan pins, so that they leave `available`: those it shares, and sources.
std::uint32_t Ledger::Impl::evictable_sources(const ReusePlan& plan, bool with_partial,
                                              bool with_runs) const {
  std::unordered_set<BlockId> pinned;
  const auto add = [&](BlockId block) {
    if (pool_.state(block) == BlockState::kEvictable) pinned.insert(block);
  };
  std::ranges::for_each(plan.exact_blocks, add);
  std::ranges::for_each(plan.approximate_blocks, add);
  if (with_partial) add(plan.partial_block);
  if (with_runs)
    for (const SegmentRun& run : plan.runs) std::ranges::for_each(run.blocks, add);
  return static_cast<std::uint32_t>(pinned.size());
}

Ledger::Impl::Fit Ledger::Impl::fit(const ReusePlan& plan, std::uint32_t max_total_tokens) const {
  Fit fit;
  const std::uint32_t whole = blocks_for(max_total_tokens);
  fit.ever = whole <= pool_.total();
  if (!fit.ever) return fit;
  const bool has_partial = plan.partial_tokens > 0;
  const bool has_runs = !plan.runs.empty();
  const std::uint64_t own = whole - plan.exact_blocks.size() - plan.approximate_blocks.size();
  for (const bool with_runs : {true, false}) {
    for (const bool with_partial : {true, false}) {
      if ((with_runs && !has_runs) || (with_partial && !has_partial)) continue;
      fit.now = reserved_ + own + evictable_sources(plan, with_partial, with_runs) <= available();
      fit.with_partial = with_partial;
      fit.with_runs = with_runs;
      if (fit.now) return fit;
    }
  }
  return fit;
}

bool Ledger::Impl::can_admit(const ReusePlan& plan, std::uint32_t max_total_tokens) const {
  if (plan.tokens.empty() || max_total_tokens < plan.tokens.size()) return false;
  return fit(plan, max_total_tokens).now;
}

bool Ledger::Impl::is_current(const ReusePlan& plan) const {
  if (!is_prefix_current(plan)) return false;
  auto next = static_cast<Position>(plan.prefix_tokens());
  for (const SegmentRun& run : plan.runs) {
    if (run.begin < next || run.end() >= static_cast<Position>(plan.tokens.size())) return false;
    if (!is_current(plan, run)) return false;
    next = run.end();
  }
  return true;
}

// Its exact blocks, then its approximate ones, still hold the beginning of its prompt.
bool Ledger::Impl::is_prefix_current(const ReusePlan& plan) const {
  std::span<const TokenId> rest(plan.tokens);
  const std::size_t block_size = options_.block_size;
  const std::size_t approximate = plan.approximate_blocks.size() * block_size;
  const std::size_t whole = plan.exact_blocks.size() * block_size + approximate;
  if (plan.prefix_tokens() != whole + plan.partial_tokens) return false;
  const bool is_partial_approximate = plan.approximate_tokens > 0;
  if (plan.approximate_tokens != approximate + (is_partial_approximate ? plan.partial_tokens : 0))
    return false;
  if (plan.prefix_tokens() > 0 && plan.prefix_tokens() >= rest.size()) return false;
  if (!is_partial_approximate && plan.partial_tokens % options_.reuse_step_tokens != 0)
    return false;
  NodeId parent = kNoNode;
  const auto goes_on = [&](BlockId block, std::size_t count, bool is_approximate) {
    if (to_int(block) >= pool_.total()) return false;
    const NodeId node = tree_.node_of(block);
    if (node == kNoNode || tree_.parent_of(node) != parent) return false;
    if (tree_.is_detached(node) || tree_.space_of(node) != plan.space) return false;
    if (tree_.is_approximate(node) != is_approximate) return false;
    if (tree_.divergence_of(node) > plan.divergence) return false;
    const auto stored = tree_.tokens_of(node);
    if (stored.size() < count || !std::ranges::equal(stored.first(count), rest.first(count)))
      return false;
    parent = node;
    rest = rest.subspan(count);
    return true;
  };
  for (BlockId block : plan.exact_blocks)
    if (!goes_on(block, block_size, false)) return false;
  for (BlockId block : plan.approximate_blocks)
    if (!goes_on(block, block_size, true)) return false;
  return plan.partial_tokens == 0 ||
         goes_on(plan.partial_block, plan.partial_tokens, is_partial_approximate);
}

// Its blocks still hold its tokens, at its source positions, one behind the other.
bool Ledger::Impl::is_current(const ReusePlan& plan, const SegmentRun& run) const {
  if (run.length == 0 || run.blocks.size() != blocks_for(run.first_row + run.length)) return false;
  auto wanted =
      std::span(plan.tokens).subspan(static_cast<std::size_t>(run.begin), std::size_t{run.length});
  Position position = run.source_begin - static_cast<Position>(run.first_row);
  std::size_t row = run.first_row;
  NodeId parent = kNoNode;
  for (BlockId block : run.blocks) {
    if (to_int(block) >= pool_.total()) return false;
    const NodeId node = tree_.node_of(block);
    if (node == kNoNode || tree_.space_of(node) != plan.space) return false;
    if (tree_.is_approximate(node) || tree_.position_of(node) != position) return false;
    if (parent != kNoNode && tree_.parent_of(node) != parent) return false;
    const std::size_t count = std::min<std::size_t>(wanted.size(), options_.block_size - row);
    const auto stored = tree_.tokens_of(node);
    if (stored.size() < row + count ||
        !std::ranges::equal(stored.subspan(row, count), wanted.first(count)))
      return false;
    wanted = wanted.subspan(count);
    position += static_cast<Position>(options_.block_size);
    row = 0;
    parent = node;
  }
  return wanted.empty();
}

}  // namespace refrain::kv
