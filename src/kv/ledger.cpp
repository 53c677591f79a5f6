// Ledger: the public face, and planning (const: nothing here changes a block). Engine thread.
#include "kv/ledger.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "base/str.h"
#include "kv/ledger_impl.h"

namespace refrain::kv {
namespace {

// Node and block ids stay clear of their sentinels, slots of 32 bits.
constexpr std::uint64_t kMaxSlots = 1ULL << 31U;

std::vector<Span> spans_of(std::uint32_t exact_tokens, std::size_t token_count) {
  std::vector<Span> spans;
  const auto split = static_cast<Position>(exact_tokens);
  const auto end = static_cast<Position>(token_count);
  if (split > 0) spans.push_back(Span{0, split, Provenance::kExact});
  if (split < end) spans.push_back(Span{split, end, Provenance::kFresh});
  return spans;
}

}  // namespace

Ledger::Impl::Impl(const LedgerOptions& options)
    : options_(options),
      pool_(options.block_count),
      tree_(options.block_size, options.block_count),
      eviction_(options.policy, options.block_count) {}

// ---- planning

ReusePlan Ledger::Impl::plan(const CacheSpace& space, const TokenList& tokens) const {
  ReusePlan plan;
  plan.space = space;
  plan.tokens = tokens;
  plan.reason = MissReason::kDisabled;
  if (options_.prefix_cache) {
    // The last token is always computed: its logits choose the next one.
    const std::size_t limit = tokens.empty() ? 0 : tokens.size() - 1;
    const PrefixMatch match = tree_.match(space, std::span(tokens).first(limit));
    for (NodeId node : match.full) plan.exact_blocks.push_back(tree_.block_of(node));
    if (match.partial != kNoNode) plan.partial_block = tree_.block_of(match.partial);
    plan.partial_tokens = match.partial_tokens;
    plan.exact_tokens =
        static_cast<std::uint32_t>(match.full.size()) * options_.block_size + match.partial_tokens;
    if (plan.exact_tokens == limit) {
      plan.reason = MissReason::kNone;
    } else if (plan.exact_tokens == 0) {
      plan.reason = MissReason::kCold;
    } else {
      plan.reason = match.something_follows ? MissReason::kDiverged : MissReason::kEnded;
    }
    if (plan.exact_tokens > 0 &&
        plan.exact_tokens < std::uint64_t{options_.min_match_blocks} * options_.block_size) {
      plan.exact_blocks.clear();
      plan.partial_tokens = plan.exact_tokens = 0;
      plan.reason = MissReason::kShort;
    }
  }
  plan.spans = spans_of(plan.exact_tokens, tokens.size());
  return plan;
}

std::uint32_t Ledger::Impl::blocks_for(std::uint32_t token_count) const {
  return token_count / options_.block_size + (token_count % options_.block_size != 0 ? 1 : 0);
}

Ledger::Impl::Fit Ledger::Impl::fit(const ReusePlan& plan, std::uint32_t max_total_tokens) const {
  const std::uint32_t whole = blocks_for(max_total_tokens);
  if (whole > pool_.total()) return Fit::kNever;
  const auto evictable = [this](BlockId block) {
    return pool_.state(block) == BlockState::kEvictable;
  };
  // New blocks, and cached ones that the plan pins: both leave `available`.
  const std::uint64_t taken =
      whole - plan.exact_blocks.size() + std::ranges::count_if(plan.exact_blocks, evictable);
  const std::uint64_t source = plan.partial_tokens > 0 && evictable(plan.partial_block) ? 1 : 0;
  if (reserved_ + taken + source <= available()) return Fit::kWhole;
  return reserved_ + taken <= available() ? Fit::kWithoutPartial : Fit::kNotNow;
}

bool Ledger::Impl::can_admit(const ReusePlan& plan, std::uint32_t max_total_tokens) const {
  if (plan.tokens.empty() || max_total_tokens < plan.tokens.size()) return false;
  const Fit found = fit(plan, max_total_tokens);
  return found == Fit::kWhole || found == Fit::kWithoutPartial;
}

bool Ledger::Impl::is_current(const ReusePlan& plan) const {
  const std::span<const TokenId> tokens(plan.tokens);
  const std::size_t full_tokens = plan.exact_blocks.size() * options_.block_size;
  if (plan.exact_tokens != full_tokens + plan.partial_tokens) return false;
  if (plan.exact_tokens > 0 && plan.exact_tokens >= tokens.size()) return false;
  const auto stores = [&](BlockId block, NodeId parent, std::span<const TokenId> wanted) {
    if (to_int(block) >= pool_.total()) return false;
    const NodeId node = tree_.node_of(block);
    if (node == kNoNode || tree_.parent_of(node) != parent) return false;
    if (tree_.space_of(node) != plan.space) return false;
    const auto stored = tree_.tokens_of(node);
    return stored.size() >= wanted.size() &&
           std::ranges::equal(stored.first(wanted.size()), wanted);
  };
  NodeId parent = kNoNode;
  for (std::size_t i = 0; i < plan.exact_blocks.size(); ++i) {
    const auto wanted = tokens.subspan(i * options_.block_size, options_.block_size);
    if (!stores(plan.exact_blocks[i], parent, wanted)) return false;
    parent = tree_.node_of(plan.exact_blocks[i]);
  }
  return plan.partial_tokens == 0 ||
         stores(plan.partial_block, parent, tokens.subspan(full_tokens, plan.partial_tokens));
}

// ---- reading

const Sequence& Ledger::Impl::sequence(SequenceId id) const {
  const auto found = sequences_.find(id);
  CHECK(found != sequences_.end(), str_cat("no sequence ", to_int(id), " is running"));
  return found->second;
}

Sequence& Ledger::Impl::sequence(SequenceId id) {
  return const_cast<Sequence&>(std::as_const(*this).sequence(id));
}

LedgerCounts Ledger::Impl::counts() const {
  return LedgerCounts{.total = pool_.total(),
                      .free = pool_.free_count(),
                      .evictable = pool_.evictable_count(),
                      .pinned = pool_.pinned_count(),
                      .reserved = reserved_,
                      .sequences = static_cast<std::uint32_t>(sequences_.size())};
}

// ---- the public face

Result<std::unique_ptr<Ledger>> Ledger::create(const LedgerOptions& options) {
  if (options.block_size == 0 || options.block_size % 16 != 0)
    return Error{Code::kInvalidArgument,
                 str_cat("block size ", options.block_size, " is not a multiple of 16"),
                 "use 16, 32 or 64", "block_size"};
  if (options.block_count == 0)
    return Error{Code::kInvalidArgument, "there is room for no KV block", "raise the KV budget",
                 "kv_budget"};
  if (std::uint64_t{options.block_size} * options.block_count > kMaxSlots)
    return Error{Code::kInvalidArgument,
                 str_cat(options.block_count, " blocks of ", options.block_size,
                         " tokens are more than 2^31 token slots"),
                 "lower the KV budget", "kv_budget"};
  return std::unique_ptr<Ledger>(new Ledger(std::make_unique<Impl>(options)));
}

Ledger::Ledger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Ledger::~Ledger() = default;

ReusePlan Ledger::plan(const CacheSpace& space, const TokenList& tokens) const {
  return impl_->plan(space, tokens);
}
bool Ledger::can_admit(const ReusePlan& plan, std::uint32_t max_total_tokens) const {
  return impl_->can_admit(plan, max_total_tokens);
}
std::uint32_t Ledger::blocks_for(std::uint32_t token_count) const {
  return impl_->blocks_for(token_count);
}
const BlockTable& Ledger::table(SequenceId id) const {
  return std::as_const(*impl_).sequence(id).table;
}
std::uint32_t Ledger::length(SequenceId id) const {
  return std::as_const(*impl_).sequence(id).length;
}
std::uint32_t Ledger::committed(SequenceId id) const {
  return std::as_const(*impl_).sequence(id).committed;
}
LedgerCounts Ledger::counts() const {
  return impl_->counts();
}
const LedgerTotals& Ledger::totals() const {
  return impl_->totals();
}
const LedgerOptions& Ledger::options() const {
  return impl_->options();
}
std::string Ledger::verify() const {
  return impl_->verify();
}

Result<Admission> Ledger::admit(SequenceId id, const ReusePlan& plan,
                                std::uint32_t max_total_tokens, Tick now) {
  return impl_->admit(id, plan, max_total_tokens, now);
}
void Ledger::append(SequenceId id, std::span<const TokenId> tokens, Tick now) {
  impl_->append(id, tokens, now);
}
void Ledger::commit(SequenceId id) {
  impl_->commit(id);
}
void Ledger::rollback(SequenceId id) {
  impl_->rollback(id);
}
void Ledger::release(SequenceId id, Tick now) {
  impl_->release(id, now);
}
std::uint32_t Ledger::drop(const CacheSpace& space) {
  return impl_->drop(&space);
}
std::uint32_t Ledger::drop_all() {
  return impl_->drop(nullptr);
}

}  // namespace refrain::kv
