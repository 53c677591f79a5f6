// The reference of `refrain eval exact`: each turn of a trial computed cold and alone, in fresh
// blocks, on one thread, its prompt in one chunk or row by row and its reply one token after
// another; and the book that keeps the logits of every row. Main thread; the book is read by one
// thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "cli/exact_findings.h"
#include "cli/exact_trial.h"
#include "model/executor.h"
#include "model/kv_arena.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace refrain::cli {

using ExecutorFactory = std::function<Result<std::unique_ptr<model::Executor>>(
    const model::Model&, model::KvArena&, const model::ExecutorOptions&)>;

// What a trial runs on: a model, one kind of executor and one KV format.
struct ExactSubject {
  const model::Model* model = nullptr;
  const text::Tokenizer* tokenizer = nullptr;
  std::string executor_name;
  ExecutorFactory make_executor;
  std::string format_name;
  model::KvFormat format = model::KvFormat::kF16;
};

// Hash of a beginning of a token list, one token longer than that of `previous`.
Hash128 extend_prefix(const Hash128& previous, TokenId token);

class ReferenceBook {
 public:
  struct Turn {
    TokenList tokens;  // prompt and reply
    std::uint32_t prompt_length = 0;
  };
  struct Row {
    std::size_t turn = 0;  // the first that has it
    Position position = 0;
    bool in_reply = false;
    std::vector<float> logits;  // [vocabulary_size] behind tokens [0, position]
  };

  ReferenceBook() = default;
  ReferenceBook(ReferenceBook&&) = default;  // not copied: rows are found by their address
  ReferenceBook& operator=(ReferenceBook&&) = default;

  // Rows that an earlier turn has are compared with its own: two cold runs of different chunks.
  void add(Turn turn, std::span<const float> logits, Findings& findings);
  // A turn whose rows are all there.
  void add_known(Turn turn) { turns_.push_back(std::move(turn)); }

  const std::vector<Turn>& turns() const { return turns_; }
  // The row behind exactly these tokens, whose hash is `prefix`; null if no turn begins so.
  const Row* find(const Hash128& prefix, std::span<const TokenId> tokens) const;

 private:
  std::vector<Turn> turns_;
  std::deque<Row> rows_;
  std::unordered_map<Hash128, const Row*, Hash128Hasher> by_prefix_;
};

// Errors of the executor. Cold runs that differ among themselves are findings.
Result<ReferenceBook> compute_reference(const ExactSubject& subject, const TrialPlan& plan,
                                        Findings& findings);

}  // namespace refrain::cli
