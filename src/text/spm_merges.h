// SpmMerges: the merges a SentencePiece vocabulary implies. Its file lists only tokens and scores:
// two symbols merge if their joined text is a token, and the score ranks the merge. Here every cut
// of every token into two symbols is looked up once, so that encoding needs no text compare.
// Immutable after construction; any thread.
//
//   token "▁the", score -5:  (▁ the) (▁t he) (▁th e)  as far as both halves are symbols
#pragma once

#include <unordered_map>
#include <utility>

#include "text/char_symbols.h"
#include "text/merge_table.h"
#include "text/token_table.h"

namespace refrain::text {

struct SpmMerges {
  explicit SpmMerges(const TokenTable& table);

  CharSymbols chars;
  // Also holds, without rank, the pairs of characters that stand side by side inside a token. So
  // a pair that is not found is a border which no token crosses: text can be cut there.
  MergeTable table;
  // Unused tokens are only steps on the way: what is left of them in the end is cut again.
  std::unordered_map<SymbolId, std::pair<SymbolId, SymbolId>> unused_halves;
};

}  // namespace refrain::text
