// TokenTrie: finds tokens that are matched as written, before any merging: control tokens in
// template text, user-defined tokens everywhere. Longest match at the first place where one
// begins. Immutable after construction; any thread.
//
//   TokenTrie trie({{"<b>", TokenId{5}}, {"<br>", TokenId{6}}});
//   trie.find("a<br>", 0);   // {begin 1, length 4, id 6}
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace refrain::text {

class TokenTrie {
 public:
  using Node = std::int32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = -1;

  TokenTrie() : TokenTrie(std::vector<std::pair<std::string, TokenId>>{}) {}
  // Empty texts are left out; of equal ones the lowest id counts.
  explicit TokenTrie(std::vector<std::pair<std::string, TokenId>> tokens);

  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    std::size_t begin = 0;
    std::size_t length = 0;
    TokenId id{};
  };
  // First match in `text` from `from` on. Costs at most text length x longest token.
  std::optional<Match> find(std::string_view text, std::size_t from) const;
  // Longest token that begins exactly at `at`.
  std::optional<Match> match_at(std::string_view text, std::size_t at) const;

  // For callers that walk by themselves: next node, or kNone; token that ends at a node.
  Node child(Node node, char byte) const;
  std::optional<TokenId> token(Node node) const;

 private:
  struct Entry {
    std::string_view text;
    TokenId id;
  };
  struct NodeData {
    std::int32_t token = -1;
    std::uint32_t edge_begin = 0;  // into edges_, sorted by byte
    std::uint32_t edge_count = 0;
  };
  struct Edge {
    unsigned char byte;
    Node target;
  };
  void build(const std::vector<Entry>& sorted);

  std::vector<NodeData> nodes_;
  std::vector<Edge> edges_;
  std::array<Node, 256> first_{};  // children of the root
};

}  // namespace refrain::text
