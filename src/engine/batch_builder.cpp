#include "engine/batch_builder.h"

#include <span>

#include "base/check.h"

namespace refrain::engine {

void BatchBuilder::build(std::vector<ScheduledSequence>& scheduled, Tick now, model::Batch& batch) {
  batch.rows.clear();
  batch.sequences.clear();
  batch.first_mass_layer = first_mass_layer_;
  logit_rows_ = 0;
  hidden_rows_ = 0;
  // All slots first: an append may evict cached blocks, never ones that a sequence holds.
  for (ScheduledSequence& entry : scheduled) {
    const Sequence& sequence = *entry.sequence;
    entry.first_position = sequence.computed();
    if (sequence.repairing()) continue;  // all its slots were taken before its rows moved
    CHECK(ledger_.length(sequence.id()) == sequence.computed(), "ledger and sequence disagree");
    CHECK(entry.row_count > 0 && entry.row_count <= sequence.pending(),
          "rows that are not pending");
    ledger_.append(sequence.id(),
                   std::span(sequence.tokens()).subspan(entry.first_position, entry.row_count),
                   now);
  }
  for (ScheduledSequence& entry : scheduled) {
    if (entry.sequence->repairing()) {
      add_repair_rows(entry, batch);
    } else {
      add_rows(entry, batch);
    }
  }
}

void BatchBuilder::add_rows(ScheduledSequence& entry, model::Batch& batch) {
  Sequence& sequence = *entry.sequence;
  const GenerateRequest& request = entry.request->request();
  const kv::BlockTable& table = ledger_.table(sequence.id());
  const std::uint32_t end = entry.first_position + entry.row_count;
  const bool last_rows = end == sequence.tokens().size();
  const bool embeds = entry.request->embeds();
  const bool scores_prompt =
      request.prompt_logprobs && sequence.choice() == 0 && !sequence.decoding();
  entry.samples = last_rows && !embeds && request.max_tokens > 0;
  entry.first_logits = logit_rows_;
  entry.first_hidden = hidden_rows_;
  entry.logit_count = 0;
  const auto index = static_cast<std::uint32_t>(batch.sequences.size());
  const std::uint32_t dropped = ledger_.dropped(sequence.id());
  const model::HeadView* view = sequence.trim() == nullptr ? nullptr : sequence.trim()->view();
  batch.sequences.push_back({.table = &table,
                             .length = end,
                             .dropped = dropped,
                             .view = view,
                             .open_tile = &sequence.open_tile()});
  for (std::uint32_t position = entry.first_position; position < end; ++position) {
    model::BatchRow row;
    row.token = sequence.tokens()[position];
    row.position = static_cast<Position>(position);
    row.sequence = index;
    row.slot =
        kv::slot_of(table, static_cast<Position>(position - dropped), ledger_.options().block_size);
    row.wants_logits = scores_prompt || (entry.samples && position + 1 == end);
    row.wants_hidden = embeds;
    entry.logit_count += row.wants_logits ? 1 : 0;
    batch.rows.push_back(row);
  }
  logit_rows_ += entry.logit_count;
  if (embeds) hidden_rows_ += entry.row_count;
}

void BatchBuilder::add_repair_rows(ScheduledSequence& entry, model::Batch& batch) {
  Sequence& sequence = *entry.sequence;
  PromptRepair& repair = *sequence.repair();
  CHECK(entry.row_count > 0 && entry.row_count <= repair.pending().size(),
        "rows that are not pending");
  const kv::BlockTable& table = ledger_.table(sequence.id());
  const auto rows = repair.pending().first(entry.row_count);
  const bool last_rows = rows.back() + 1 == repair.end();
  entry.samples = last_rows && entry.request->request().max_tokens > 0;
  entry.first_logits = logit_rows_;
  entry.logit_count = entry.samples ? 1 : 0;
  const auto index = static_cast<std::uint32_t>(batch.sequences.size());
  batch.sequences.push_back({.table = &table,
                             .length = static_cast<std::uint32_t>(rows.back()) + 1,
                             .open_tile = &repair.open_tile()});
  for (const Position position : rows) {
    model::BatchRow row;
    row.token = sequence.tokens()[static_cast<std::size_t>(position)];
    row.position = position;
    row.sequence = index;
    row.slot = kv::slot_of(table, position, ledger_.options().block_size);
    row.wants_logits = entry.samples && position + 1 == repair.end();
    row.wants_mass = repair.wants_mass(position);
    batch.rows.push_back(row);
  }
  logit_rows_ += entry.logit_count;
}

}  // namespace refrain::engine
