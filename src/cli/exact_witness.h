// ExactWitness: an executor around another one that compares every row of logits with the book. It
// keeps the token that each slot of the arena holds, so it knows from the block table alone which
// history a row stands for: a wrong slot, table or copy is found as well as a wrong value. Used by
// the thread that runs the batches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/exact_findings.h"
#include "cli/exact_reference.h"
#include "model/executor.h"

namespace refrain::cli {

class ExactWitness final : public model::Executor {
 public:
  // `book` and `findings` outlive the witness.
  ExactWitness(std::unique_ptr<model::Executor> inner, const model::KvArena& arena,
               const ReferenceBook& book, Findings& findings);

  // Another executor over the same arena.
  void replace(std::unique_ptr<model::Executor> inner) { inner_ = std::move(inner); }
  // Whether the row in this slot was computed alone, as the next one of a reply.
  bool was_generated(kv::Slot slot) const { return slots_[slot].generated; }

  Result<void> run(const model::Batch& batch, model::BatchOutput& output) override;
  void copy_rows(const kv::BlockCopy& copy) override;
  std::string numerics() const override { return inner_->numerics(); }
  std::uint64_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  std::uint32_t max_batch_rows() const override { return inner_->max_batch_rows(); }

 private:
  struct SlotContent {
    TokenId token{-1};
    bool generated = false;
  };
  void note_writes(const model::Batch& batch);
  void compare_rows(const model::Batch& batch, const model::BatchOutput& output);

  std::unique_ptr<model::Executor> inner_;
  const std::uint32_t block_size_;
  const ReferenceBook& book_;
  Findings& findings_;
  std::vector<SlotContent> slots_;
  std::size_t steps_ = 0;
};

}  // namespace refrain::cli
