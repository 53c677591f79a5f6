// Hosts of trials. The thread that runs the batches.
#include "cli/exact_host.h"

#include <algorithm>
#include <array>

#include "base/str.h"

namespace refrain::cli {
namespace {

// ggml mostly on one: its threads, if they outnumber the free cores, wait for each other by
// spinning.
std::uint32_t draw_threads(const ExactSubject& subject, Rng& rng) {
  if (subject.executor_name == "ggml" && rng.below(5) > 0) return 1;
  return static_cast<std::uint32_t>(1 + rng.below(3));
}

}  // namespace

Result<std::unique_ptr<TrialHost>> TrialHost::create(const ExactSubject& subject,
                                                     const ReferenceBook& book, Rng& rng,
                                                     Findings& findings) {
  std::unique_ptr<TrialHost> host(new TrialHost(subject, rng, findings));
  host->draw_settings(book);
  const HostSettings& settings = host->settings_;
  ASSIGN_OR_RETURN(host->arena_,
                   model::KvArena::create(subject.model->shape(), subject.format,
                                          settings.ledger.block_size, settings.ledger.block_count));
  host->settings_.ledger.reuse_step_tokens = kernels::reuse_step_tokens(host->arena_->layout());
  ASSIGN_OR_RETURN(auto executor,
                   subject.make_executor(*subject.model, *host->arena_,
                                         {.thread_count = settings.threads,
                                          .max_batch_rows = settings.max_batch_rows}));
  host->executor_ =
      std::make_unique<ExactWitness>(std::move(executor), *host->arena_, book, findings);
  ASSIGN_OR_RETURN(host->ledger_, kv::Ledger::create(settings.ledger));
  host->describe_setting();
  return host;
}

void TrialHost::draw_settings(const ReferenceBook& book) {
  settings_.threads = draw_threads(subject_, rng_);
  settings_.max_batch_rows =
      8 + static_cast<std::uint32_t>(rng_.below(rng_.below(2) == 0 ? 32 : 320));
  kv::LedgerOptions& ledger = settings_.ledger;
  ledger.block_size = 16U << rng_.below(3);
  std::uint32_t longest = 0, all = 0;  // blocks
  for (const ReferenceBook::Turn& turn : book.turns()) {
    const auto length = static_cast<std::uint32_t>(turn.tokens.size());
    const std::uint32_t blocks = (length + ledger.block_size - 1) / ledger.block_size;
    longest = std::max(longest, blocks);
    all += blocks;
  }
  ledger.block_count = longest + static_cast<std::uint32_t>(rng_.below(all - longest + 2));
  ledger.max_cached_blocks =
      rng_.below(4) == 0 ? 1 + static_cast<std::uint32_t>(rng_.below(ledger.block_count)) : 0;
  constexpr std::array kPolicies = {kv::EvictionPolicy::kLru, kv::EvictionPolicy::kLfu,
                                    kv::EvictionPolicy::kGdsf};
  ledger.policy = kPolicies[rng_.below(kPolicies.size())];
}

void TrialHost::describe_setting() {
  findings_.setting = str_cat(subject_.executor_name, ", KV format ", subject_.format_name, ", ",
                              settings_.threads, " threads, block size ",
                              settings_.ledger.block_size, ", ", settings_.ledger.block_count,
                              " blocks, at most ", settings_.max_batch_rows, " rows a step");
}

Result<void> TrialHost::replace_executor() {
  settings_.threads = draw_threads(subject_, rng_);
  ASSIGN_OR_RETURN(auto executor,
                   subject_.make_executor(*subject_.model, *arena_,
                                          {.thread_count = settings_.threads,
                                           .max_batch_rows = settings_.max_batch_rows}));
  executor_->replace(std::move(executor));
  describe_setting();
  return {};
}

void TrialHost::close() {
  findings_.coverage.add(ledger_->totals());
  const std::string broken = ledger_->verify();
  if (!broken.empty()) findings_.fault(str_cat("the ledger is broken: ", broken));
  const kv::LedgerCounts counts = ledger_->counts();
  if (counts.sequences > 0 || counts.pinned > 0 || counts.reserved > 0)
    findings_.fault("blocks are still held after the last turn");
}

}  // namespace refrain::cli
