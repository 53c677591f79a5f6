// The life of a sequence in the ledger: everything that changes a block. Engine thread.
#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "base/str.h"
#include "kv/ledger_impl.h"

namespace refrain::kv {

// ---- blocks

BlockId Ledger::Impl::take_block() {
  if (pool_.free_count() == 0) {
    forget(eviction_.next_victim());
    ++totals_.evicted_blocks;
  }
  return pool_.take();
}

void Ledger::Impl::pin(BlockId block) {
  const NodeId node = tree_.node_of(block);
  if (node != kNoNode && eviction_.contains(node)) eviction_.remove(node);
  pool_.pin(block);
}

void Ledger::Impl::unpin(BlockId block) {
  if (!pool_.unpin(block)) return;
  const NodeId node = tree_.node_of(block);
  if (node == kNoNode) {
    pool_.give_back(block);
  } else {
    eviction_.add(node);
  }
}

void Ledger::Impl::use(BlockId block, Tick now) {
  pin(block);
  eviction_.count_use(tree_.node_of(block), now);
}

// Whoever uses a tail behind its head needs the head: it never counts fewer uses, whatever the tail
// has had as a segment, or twice from one request that copied a part of it and then grew into it.
void Ledger::Impl::use_as_prefix(NodeId node, Tick now) {
  eviction_.count_use(node, now);
  for (NodeId above = tree_.parent_of(node);
       above != kNoNode && eviction_.keep_up_with(above, node);)
    above = tree_.parent_of(above);
}

void Ledger::Impl::forget(NodeId node) {
  const BlockId block = tree_.block_of(node);
  eviction_.remove(node);
  if (is_segment(node)) segments_.erase(node);
  tree_.remove(node);
  pool_.give_back(block);
}

void Ledger::Impl::keep_cap() {
  if (options_.max_cached_blocks == 0) return;
  while (pool_.evictable_count() > options_.max_cached_blocks) {
    forget(eviction_.next_victim());
    ++totals_.evicted_blocks;
  }
}

// ---- admission

Result<Admission> Ledger::Impl::admit(SequenceId id, const ReusePlan& plan,
                                      std::uint32_t max_total_tokens, Tick now) {
  CHECK(!sequences_.contains(id), str_cat("sequence ", to_int(id), " is already running"));
  CHECK(is_current(plan), "the ledger has changed since this plan was made");
  if (plan.tokens.empty())
    return Error{Code::kInvalidArgument, "the prompt has no tokens", "send some text", "prompt"};
  if (max_total_tokens < plan.tokens.size())
    return Error{Code::kInvalidArgument,
                 str_cat("room for ", max_total_tokens, " tokens is less than the prompt of ",
                         plan.tokens.size())};
  const Fit found = fit(plan, max_total_tokens);
  if (!found.ever)
    return Error{
        Code::kContextLength,
        str_cat("a request of up to ", max_total_tokens, " tokens needs ",
                blocks_for(max_total_tokens), " KV blocks, the whole budget has ", pool_.total()),
        "shorten the prompt, lower max_tokens, or raise the KV budget"};
  if (!found.now)
    return Error{Code::kUnavailable,
                 str_cat("a request of up to ", max_total_tokens,
                         " tokens does not fit beside the running ones: ", available(),
                         " KV blocks are not in use, ", reserved_, " of them promised"),
                 "wait until a running request ends"};

  Sequence& sequence = sequences_[id];
  sequence.space = plan.space;
  sequence.max_total = max_total_tokens;
  sequence.reserved =
      blocks_for(max_total_tokens) -
      static_cast<std::uint32_t>(plan.exact_blocks.size() + plan.approximate_blocks.size());
  reserved_ += sequence.reserved;
  const Admission admission = start(sequence, plan, found, now);
  totals_.queried_tokens += plan.tokens.size();
  const std::uint32_t exact = std::min(admission.cached_tokens, plan.exact_tokens);
  totals_.hit_tokens += exact;
  totals_.approximate_tokens += admission.cached_tokens - exact;
  for (const SegmentRun& run : admission.runs) totals_.moved_tokens += run.length;
  return admission;
}

Admission Ledger::Impl::start(Sequence& sequence, const ReusePlan& plan, const Fit& fit, Tick now) {
  sequence.last_used = now;
  // Pin all of the plan before taking anything: taking may evict.
  for (BlockId block : plan.exact_blocks) share(sequence, block, now);
  for (BlockId block : plan.approximate_blocks) share(sequence, block, now);
  Admission admission;
  if (fit.with_runs) {
    start_runs(sequence, plan, now);
    admission.runs = plan.runs;
  }
  admission.cached_tokens = sequence.published * options_.block_size;
  if (fit.with_partial) {
    pin(plan.partial_block);
    use_as_prefix(tree_.node_of(plan.partial_block), now);
    sequence.copy_source = plan.partial_block;
    const BlockId own = take_block();
    sequence.table.push_back(own);
    --sequence.reserved;
    --reserved_;
    const auto first = plan.tokens.begin() + admission.cached_tokens;
    sequence.tail.assign(first, first + plan.partial_tokens);
    admission.cached_tokens += plan.partial_tokens;
    admission.copies.push_back(BlockCopy{plan.partial_block, own, plan.partial_tokens});
    ++totals_.copied_blocks;
  }
  sequence.length = sequence.committed = admission.cached_tokens;
  if (plan.approximate_tokens > 0 && admission.cached_tokens > plan.exact_tokens) {
    sequence.inherited_from = plan.exact_tokens;
    sequence.inherited_divergence = plan.divergence;
  }
  return admission;
}

void Ledger::Impl::share(Sequence& sequence, BlockId block, Tick now) {
  pin(block);
  use_as_prefix(tree_.node_of(block), now);
  sequence.table.push_back(block);
  sequence.cursor = tree_.node_of(block);
  ++sequence.published;
}

void Ledger::Impl::start_runs(Sequence& sequence, const ReusePlan& plan, Tick now) {
  sequence.first_run = static_cast<std::uint32_t>(plan.runs.front().begin);
  for (const SegmentRun& run : plan.runs) {
    for (BlockId block : run.blocks) use(block, now);
    sequence.run_sources.push_back(RunSource{static_cast<std::uint32_t>(run.end()), run.blocks});
  }
}

// ---- steps

void Ledger::Impl::append(SequenceId id, std::span<const TokenId> tokens, Tick now) {
  Sequence& running = sequence(id);
  CHECK(tokens.size() <= running.max_total - running.length,
        "append() beyond what was reserved at admission");
  running.length += static_cast<std::uint32_t>(tokens.size());
  running.last_used = now;
  if (options_.prefix_cache && running.publishes)
    running.tail.insert(running.tail.end(), tokens.begin(), tokens.end());
  while (running.table.size() < blocks_for(running.rows())) {
    CHECK(running.reserved > 0, "a sequence took more blocks than it reserved");
    running.table.push_back(take_block());
    --running.reserved;
    --reserved_;
  }
}

void Ledger::Impl::commit(SequenceId id) {
  Sequence& running = sequence(id);
  if (running.length == running.committed) return;
  let_go_of_source(running);  // a step has run, so the copy was made
  running.committed = running.length;
  let_go_of_runs(running, running.committed);
  if (options_.prefix_cache && running.publishes) publish_full_blocks(running);
  keep_cap();
}

// The next tokens behind the published blocks, at most one block of them.
Publication Ledger::Impl::publish(const Sequence& sequence, std::span<const TokenId> tokens) {
  const std::uint32_t end =
      sequence.published * options_.block_size + static_cast<std::uint32_t>(tokens.size());
  const Place place{sequence.space, sequence.cursor, end > sequence.exact_end()};
  return tree_.publish(place, tokens, sequence.table[sequence.published], sequence.estimate(end));
}

void Ledger::Impl::publish_full_blocks(Sequence& sequence) {
  const std::size_t block_size = options_.block_size;
  const auto ready = std::span<const TokenId>(sequence.tail)
                         .first(sequence.publishable() - sequence.published * block_size);
  auto rest = ready;
  for (; rest.size() >= block_size; rest = rest.subspan(block_size)) {
    const Publication published = publish(sequence, rest.first(block_size));
    if (published.outcome == PublishOutcome::kCovered) {
      join_twin(sequence, published.node);
    } else {
      welcome(published, sequence.last_used);
    }
    sequence.cursor = published.node;
    ++sequence.published;
  }
  sequence.tail.erase(
      sequence.tail.begin(),
      sequence.tail.begin() + static_cast<std::ptrdiff_t>(ready.size() - rest.size()));
}

// New content is in the tree: count it, and free what a leaf that grew held before.
void Ledger::Impl::welcome(const Publication& published, Tick now) {
  ++totals_.published_blocks;
  if (is_segment(published.node)) segments_.insert(published.node);
  if (published.outcome == PublishOutcome::kInserted) {
    eviction_.start(published.node, now, tree_.depth_of(published.node));
    return;
  }
  if (eviction_.contains(published.node)) eviction_.remove(published.node);
  use_as_prefix(published.node, now);
  // Still pinned as the source of a copy: it is freed when that copy is done.
  if (pool_.state(published.displaced) == BlockState::kEvictable)
    pool_.give_back(published.displaced);
}

// The content of its next block was published by somebody else while this sequence computed it.
void Ledger::Impl::join_twin(Sequence& sequence, NodeId node) {
  ++totals_.duplicate_blocks;
  const BlockId own = sequence.table[sequence.published];
  const BlockId other = tree_.block_of(node);
  const float divergence = sequence.estimate((sequence.published + 1) * options_.block_size);
  const bool is_worth_keeping = divergence > tree_.divergence_of(node) && reserved_ < available();
  if (pool_.state(other) == BlockState::kEvictable && !is_worth_keeping) {
    // Nobody uses the other one: the tree keeps ours instead and the other becomes free.
    // (Pinning it too would take a block out of `available` that may be promised.)
    if (eviction_.contains(node)) eviction_.remove(node);
    tree_.move_to_block(node, own, divergence);
    pool_.give_back(other);
  } else {
    // Still in use, or better: tables never change, so both stay; ours is private and ends with us.
    pin(other);
    sequence.twins.push_back(other);
  }
  use_as_prefix(node, sequence.last_used);
}

void Ledger::Impl::drop_uncommitted(Sequence& sequence) {
  const std::uint32_t kept_blocks = blocks_for(sequence.committed - sequence.dropped);
  while (sequence.table.size() > kept_blocks) {
    unpin(sequence.table.back());
    sequence.table.pop_back();
    ++sequence.reserved;
    ++reserved_;
  }
  sequence.length = sequence.committed;
  if (options_.prefix_cache && sequence.publishes)
    sequence.tail.resize(sequence.committed - sequence.published * options_.block_size);
}

void Ledger::Impl::let_go_of_source(Sequence& sequence) {
  if (!sequence.copy_source) return;
  unpin(*sequence.copy_source);
  sequence.copy_source.reset();
}

void Ledger::Impl::let_go_of_runs(Sequence& sequence, std::uint32_t committed) {
  auto& sources = sequence.run_sources;
  const auto first_kept = std::ranges::find_if(
      sources, [&](const RunSource& source) { return source.end > committed; });
  for (auto source = sources.begin(); source != first_kept; ++source)
    for (BlockId block : source->blocks) unpin(block);
  sources.erase(sources.begin(), first_kept);
}

void Ledger::Impl::rollback(SequenceId id) {
  Sequence& running = sequence(id);
  drop_uncommitted(running);
  keep_cap();
}

void Ledger::Impl::forgo_runs(SequenceId id) {
  Sequence& running = sequence(id);
  CHECK(running.length <= running.first_run, "rows of a run, or behind it, are there already");
  let_go_of_runs(running, Sequence::kAllExact);
  running.first_run = Sequence::kAllExact;
  running.divergence.reset();
  keep_cap();
}

void Ledger::Impl::set_divergence(SequenceId id, float nats) {
  CHECK(std::isfinite(nats) && nats >= 0, "a divergence is finite and not negative");
  Sequence& running = sequence(id);
  running.divergence = nats;
  if (options_.prefix_cache && running.publishes) publish_full_blocks(running);
}

// ---- end

void Ledger::Impl::publish_tail(Sequence& sequence) {
  if (!options_.prefix_cache || !sequence.publishes) return;
  const auto part = std::span<const TokenId>(sequence.tail)
                        .first(sequence.publishable() - sequence.published * options_.block_size);
  if (part.empty()) return;
  const Publication published = publish(sequence, part);
  // Covered: a longer stored text begins like this; the block then ends with the sequence.
  if (published.outcome != PublishOutcome::kCovered) welcome(published, sequence.last_used);
}

void Ledger::Impl::release(SequenceId id, Tick now) {
  Sequence& ending = sequence(id);
  ending.last_used = std::max(ending.last_used, now);
  drop_uncommitted(ending);
  // Without a step the part of a block that was to be copied may never have been.
  if (!ending.copy_source) publish_tail(ending);
  let_go_of_source(ending);
  let_go_of_runs(ending, Sequence::kAllExact);
  reserved_ -= ending.reserved;
  // From the tail to the head, the order in which they may be evicted.
  for (BlockId block : std::views::reverse(ending.table)) let_go(ending, block);
  for (BlockId block : std::views::reverse(ending.twins)) let_go(ending, block);
  sequences_.erase(id);
  keep_cap();
}

std::uint32_t Ledger::Impl::drop(const CacheSpace* only) {
  std::uint32_t dropped = 0;
  for (NodeId node : eviction_.candidates()) {
    if (only != nullptr && tree_.space_of(node) != *only) continue;
    forget(node);
    ++dropped;
  }
  return dropped;
}

}  // namespace refrain::kv
