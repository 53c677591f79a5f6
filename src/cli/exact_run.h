// Runs the turns of a trial: over the ledger in a schedule drawn at random, or through the engine
// with concurrent requests. Every row of logits goes past an ExactWitness. Main thread (batches of
// the engine: its own thread, while the main thread waits).
#pragma once

#include "base/result.h"
#include "cli/exact_findings.h"
#include "cli/exact_reference.h"
#include "cli/exact_trial.h"

namespace refrain::cli {

// Errors are those of arena, executor or ledger; what is wrong with the results is in `findings`.
Result<void> run_over_ledger(const ExactSubject& subject, const TrialPlan& plan,
                             const ReferenceBook& book, Findings& findings);
Result<void> run_through_engine(const ExactSubject& subject, const TrialPlan& plan,
                                const ReferenceBook& book, Findings& findings);

// Reference, then the way that the plan names.
Result<Findings> run_trial(const ExactSubject& subject, const TrialPlan& plan);

}  // namespace refrain::cli
