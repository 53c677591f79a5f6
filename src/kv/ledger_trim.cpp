// Trimming in the ledger: a running sequence gives up blocks in the middle of its table. Engine
// thread.
#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "base/str.h"
#include "kv/ledger_impl.h"

namespace refrain::kv {

void Ledger::Impl::stop_publishing(SequenceId id) {
  Sequence& running = sequence(id);
  CHECK(running.run_sources.empty(), "runs that are not computed yet");
  let_go_of_source(running);
  running.committed = running.length;
  running.publishes = false;
  running.tail.clear();
}

void Ledger::Impl::let_go(const Sequence& sequence, BlockId block) {
  const NodeId node = tree_.node_of(block);
  if (node != kNoNode) eviction_.keep_fresh(node, sequence.last_used);
  unpin(block);
}

// Blocks of its path need not stay for its sake any more, those of its table aside.
void Ledger::Impl::leave_path(Sequence& sequence) {
  for (BlockId block : std::views::reverse(sequence.twins)) let_go(sequence, block);
  sequence.twins.clear();
  sequence.cursor = kNoNode;
  sequence.published = 0;
}

// The gathered blocks are taken while the cut ones still hold their rows; what is promised to
// others must be there afterwards.
bool Ledger::Impl::has_room_for(const Sequence& sequence, const Cut& cut,
                                std::uint32_t spare) const {
  const auto last_holder = [&](BlockId block) { return pool_.references(block) == 1; };
  const auto dropped = std::span(sequence.table).subspan(cut.begin, cut.end - cut.begin);
  const auto given = static_cast<std::uint32_t>(std::ranges::count_if(dropped, last_holder));
  return cut.gathered <= available() && reserved_ - spare <= available() - cut.gathered + given;
}

Result<BlockTable> Ledger::Impl::trim(SequenceId id, const Cut& cut,
                                      std::uint32_t max_total_tokens) {
  Sequence& running = sequence(id);
  CHECK(!running.publishes && running.length == running.committed,
        "only what is committed and published no more is trimmed");
  CHECK(cut.begin + cut.gathered < cut.end && cut.end <= running.table.size() &&
            cut.end * options_.block_size <= running.rows(),
        "a cut that is not of whole blocks, or that spares nothing");
  CHECK(max_total_tokens >= running.length && max_total_tokens <= running.max_total,
        "a trimmed sequence does not grow");
  const std::uint32_t spare = blocks_for(running.max_total - running.dropped) -
                              blocks_for(max_total_tokens - running.dropped);
  if (!has_room_for(running, cut, spare))
    return Error{Code::kUnavailable,
                 str_cat("no room for ", cut.gathered, " KV blocks to gather what is kept"),
                 "wait until a running request ends"};
  BlockTable gathered;
  for (std::uint32_t i = 0; i < cut.gathered; ++i) gathered.push_back(take_block());
  const auto begin = running.table.begin() + cut.begin, end = running.table.begin() + cut.end;
  BlockTable dropped(begin, end);
  running.table.insert(running.table.erase(begin, end), gathered.begin(), gathered.end());
  const std::uint32_t tokens = (cut.end - cut.begin - cut.gathered) * options_.block_size;
  running.dropped += tokens;
  totals_.trimmed_tokens += tokens;
  running.max_total = max_total_tokens;
  running.reserved -= spare;
  reserved_ -= spare;
  for (BlockId block : std::views::reverse(dropped)) let_go(running, block);
  leave_path(running);
  keep_cap();
  return dropped;
}

}  // namespace refrain::kv
