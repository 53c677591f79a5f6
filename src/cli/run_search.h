// RunSearch: which tokens of a prompt stand in token lists seen before, and where. A plain search
// for measuring: hashes of short windows propose, tokens decide. Any thread; one owner.
//
//   stored   [ B ][ A ][ C ]             prompt   [ A ][ x ][ B ]
//                                        runs      from 1  -   from 0, longest first at each token
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"

namespace refrain::cli {

inline constexpr std::uint32_t kLeastRun = 64;  // tokens; less is not worth moving

// Tokens [from, from + length) of the list `stored` stand at [to, to + length) of the prompt.
struct FoundRun {
  std::size_t stored = 0;
  Position from = 0;
  Position to = 0;
  std::uint32_t length = 0;
};

struct FoundTokens {
  FoundRun prefix;             // from == to == 0; may be empty
  std::vector<FoundRun> runs;  // behind the prefix, ascending, apart from each other
};

class RunSearch {
 public:
  // The list gets the next number, from 0 on.
  void add(TokenList tokens);
  // Never the prompt's last token: its logits are wanted.
  FoundTokens find(const TokenList& prompt) const;

 private:
  FoundRun longest_prefix(const TokenList& prompt) const;
  FoundRun longest_at(const TokenList& prompt, std::size_t at) const;
  // Equal tokens from there on, within all but the last of the prompt.
  std::uint32_t equal_tokens(const TokenList& prompt, std::size_t at, std::size_t stored,
                             std::size_t from) const;

  struct Place {
    std::size_t stored = 0;
    std::size_t from = 0;
  };
  std::vector<TokenList> stored_;
  std::unordered_map<Hash128, std::vector<Place>, Hash128Hasher> places_;  // of windows
};

}  // namespace refrain::cli
