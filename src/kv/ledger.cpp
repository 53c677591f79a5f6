// Ledger: the public face. Engine thread.
#include "kv/ledger.h"

#include <utility>

#include "base/check.h"
#include "base/str.h"
#include "kv/ledger_impl.h"

namespace refrain::kv {
namespace {

// Node and block ids stay clear of their sentinels, slots of 32 bits.
constexpr std::uint64_t kMaxSlots = 1ULL << 31U;

}  // namespace

Ledger::Impl::Impl(const LedgerOptions& options)
    : options_(options),
      pool_(options.block_count),
      tree_(options.block_size, options.block_count),
      segments_(tree_, options.block_count),
      eviction_(options.policy, options.block_count) {}

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
                      .sequences = static_cast<std::uint32_t>(sequences_.size()),
                      .approximate = tree_.approximate_count()};
}

// ---- the public face

Result<std::unique_ptr<Ledger>> Ledger::create(const LedgerOptions& options) {
  if (options.block_size == 0 || options.block_size % 16 != 0)
    return Error{Code::kInvalidArgument,
                 str_cat("block size ", options.block_size, " is not a multiple of 16"),
                 "use 16, 32 or 64", "block_size"};
  if (options.reuse_step_tokens == 0 || 16 % options.reuse_step_tokens != 0)
    return Error{
        Code::kInvalidArgument,
        str_cat("a reuse step of ", options.reuse_step_tokens, " tokens does not divide 16"),
        "use 1 or 16", "reuse_step_tokens"};
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

ReusePlan Ledger::plan(const CacheSpace& space, const TokenList& tokens,
                       const ReuseAllowance& allowance) const {
  return impl_->plan(space, tokens, allowance);
}
bool Ledger::can_admit(const ReusePlan& plan, std::uint32_t max_total_tokens) const {
  return impl_->can_admit(plan, max_total_tokens);
}
std::uint32_t Ledger::blocks_for(std::uint32_t token_count) const {
  return impl_->blocks_for(token_count);
}
std::uint32_t Ledger::dropped(SequenceId id) const {
  return std::as_const(*impl_).sequence(id).dropped;
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
void Ledger::forgo_runs(SequenceId id) {
  impl_->forgo_runs(id);
}
void Ledger::set_divergence(SequenceId id, float nats) {
  impl_->set_divergence(id, nats);
}
void Ledger::stop_publishing(SequenceId id) {
  impl_->stop_publishing(id);
}
Result<BlockTable> Ledger::trim(SequenceId id, const Cut& cut, std::uint32_t max_total_tokens) {
  return impl_->trim(id, cut, max_total_tokens);
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
