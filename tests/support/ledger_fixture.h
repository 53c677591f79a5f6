// Shorthand for ledger tests: token lists, and whole requests in one call. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "kv/ledger.h"

namespace refrain::test {

// `count` tokens first, first + 1, ...
inline TokenList tokens_from(int first, std::size_t count) {
  TokenList tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(TokenId{first + static_cast<int>(i)});
  return tokens;
}

inline TokenList joined(TokenList head, const TokenList& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

inline kv::CacheSpace space_of(std::string_view tenant) {
  return hash_text(tenant);
}

// A ledger with its own ascending ticks.
class LedgerFixture {
 public:
  explicit LedgerFixture(const kv::LedgerOptions& options)
      : ledger(std::move(kv::Ledger::create(options)).value()) {}

  Result<kv::Admission> admit(std::uint64_t id, const TokenList& prompt,
                              std::uint32_t generated = 0, std::string_view tenant = "a") {
    const kv::ReusePlan plan = ledger->plan(space_of(tenant), prompt);
    return ledger->admit(SequenceId{id}, plan,
                         static_cast<std::uint32_t>(prompt.size()) + generated, ++now);
  }
  // Computes what the prompt still lacks.
  void prefill(std::uint64_t id, const TokenList& prompt) {
    step(id, TokenList(prompt.begin() + ledger->length(SequenceId{id}), prompt.end()));
  }
  void step(std::uint64_t id, const TokenList& tokens) {
    ledger->append(SequenceId{id}, tokens, ++now);
    ledger->commit(SequenceId{id});
  }
  void release(std::uint64_t id) { ledger->release(SequenceId{id}, ++now); }
  // A whole request; returns the cached tokens. CHECKs that it is admitted.
  std::uint32_t serve(const TokenList& prompt, const TokenList& reply = {},
                      std::string_view tenant = "a") {
    const std::uint64_t id = next_id--;
    const auto admission = admit(id, prompt, static_cast<std::uint32_t>(reply.size()), tenant);
    const std::uint32_t cached = admission.value().cached_tokens;
    prefill(id, prompt);
    for (TokenId token : reply) step(id, {token});
    release(id);
    return cached;
  }
  std::uint32_t found(const TokenList& prompt, std::string_view tenant = "a") const {
    return ledger->plan(space_of(tenant), prompt).exact_tokens;
  }
  kv::MissReason reason(const TokenList& prompt) const {
    return ledger->plan(space_of("a"), prompt).reason;
  }

  std::unique_ptr<kv::Ledger> ledger;
  Tick now = 0;
  std::uint64_t next_id = 1'000'000'000;
};

}  // namespace refrain::test
