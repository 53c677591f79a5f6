// TrialHost: arena, watched executor and ledger of one simulated process within a trial; a restart
// is a new one. Used by the thread that runs the batches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/rng.h"
#include "cli/exact_findings.h"
#include "cli/exact_reference.h"
#include "cli/exact_witness.h"
#include "kv/ledger.h"
#include "model/kv_arena.h"

namespace refrain::cli {

struct HostSettings {
  std::uint32_t threads = 1;
  std::uint32_t max_batch_rows = 512;
  kv::LedgerOptions ledger;
};

class TrialHost {
 public:
  // Draws its settings: from a pool that barely holds the longest turn to a roomy one.
  static Result<std::unique_ptr<TrialHost>> create(const ExactSubject& subject,
                                                   const ReferenceBook& book, Rng& rng,
                                                   Findings& findings);

  kv::Ledger& ledger() { return *ledger_; }
  ExactWitness& executor() { return *executor_; }
  const HostSettings& settings() const { return settings_; }

  // Another executor with another number of threads over the same arena.
  Result<void> replace_executor();
  // The end: books the ledger's totals, and a fault if something is held or out of order.
  void close();

 private:
  TrialHost(const ExactSubject& subject, Rng& rng, Findings& findings)
      : subject_(subject), rng_(rng), findings_(findings) {}
  void draw_settings(const ReferenceBook& book);
  void describe_setting();

  const ExactSubject& subject_;
  Rng& rng_;
  Findings& findings_;
  HostSettings settings_;
  std::unique_ptr<model::KvArena> arena_;
  std::unique_ptr<ExactWitness> executor_;
  std::unique_ptr<kv::Ledger> ledger_;
};

}  // namespace refrain::cli
