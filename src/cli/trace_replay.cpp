// Lines to requests, requests to the ledger. Any thread.
#include "cli/trace_replay.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/check.h"
#include "base/str.h"

namespace refrain::cli {
namespace {

using Json = nlohmann::json;
constexpr std::uint32_t kBlockSize = 16;
constexpr std::size_t kMostBlocks = 1U << 16U;  // of one request

Error bad_line(std::size_t number, std::string_view what) {
  return Error{Code::kInvalidArgument, str_cat("line ", number, " of the trace: ", what),
               "one object a line with \"timestamp\" (ms) and \"hash_ids\"", "--trace"};
}

Result<TraceRequest> request_of(std::string_view line, std::size_t number) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return bad_line(number, "not a JSON object");
  const auto time = json.find("timestamp");
  const auto ids = json.find("hash_ids");
  if (time == json.end() || !time->is_number_unsigned() || ids == json.end() || !ids->is_array())
    return bad_line(number, "no \"timestamp\" or no list \"hash_ids\"");
  if (ids->empty() || ids->size() > kMostBlocks)
    return bad_line(number, str_cat("not 1 to ", kMostBlocks, " hash ids"));
  TraceRequest request{
      .at = static_cast<Tick>(std::min<std::uint64_t>(time->get<std::uint64_t>(), 1ULL << 40U) *
                              kMillisecond)};
  for (const Json& id : *ids) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMostIds)
      return bad_line(number, str_cat("a hash id that is no number below ", kMostIds));
    request.ids.push_back(id.get<std::uint32_t>());
  }
  return request;
}

TokenList tokens_of(const TraceRequest& request) {
  TokenList tokens;
  tokens.reserve(request.ids.size() * kBlockSize);
  for (const std::uint32_t id : request.ids)
    for (std::uint32_t i = 0; i < kBlockSize; ++i)
      tokens.push_back(static_cast<TokenId>(id * kBlockSize + i));
  return tokens;
}

// Room for everything that may ever be stored, and one prompt more: its last block is copied.
std::uint32_t blocks_for_all(const std::vector<TraceRequest>& trace) {
  std::size_t longest = 0, all = 0;
  for (const TraceRequest& request : trace) {
    longest = std::max(longest, request.ids.size());
    all += request.ids.size();
  }
  return static_cast<std::uint32_t>(std::min<std::size_t>(all, kMostIds) + longest + 1);
}

}  // namespace

Result<std::vector<TraceRequest>> parse_trace(std::string_view text) {
  std::vector<TraceRequest> trace;
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    ASSIGN_OR_RETURN(TraceRequest request, request_of(line, number));
    if (!trace.empty() && request.at < trace.back().at)
      return bad_line(number, "earlier than the line before");
    trace.push_back(std::move(request));
  }
  if (trace.empty()) return bad_line(number, "there are no requests");
  return trace;
}

ReplayFigures replay(const std::vector<TraceRequest>& trace, std::uint32_t pool_blocks,
                     kv::EvictionPolicy policy) {
  ReplayFigures figures{.pool_blocks = pool_blocks > 0 ? pool_blocks : blocks_for_all(trace),
                        .policy = policy,
                        .requests = trace.size()};
  const auto ledger =
      kv::Ledger::create(
          {.block_size = kBlockSize, .block_count = figures.pool_blocks, .policy = policy})
          .value();
  const kv::CacheSpace space{1, 1};
  std::uint64_t next = 1;
  for (const TraceRequest& request : trace) {
    const TokenList tokens = tokens_of(request);
    figures.blocks += request.ids.size();
    figures.tokens += tokens.size();
    const auto id = static_cast<SequenceId>(next++);
    const auto length = static_cast<std::uint32_t>(tokens.size());
    const auto admission = ledger->admit(id, ledger->plan(space, tokens), length, request.at);
    if (!admission.ok()) {
      ++figures.too_long;  // nothing else runs: it can only be longer than the pool
      continue;
    }
    // One token is always computed: a block counts that lacks no other.
    figures.hit_blocks += (admission->cached_tokens + 1) / kBlockSize;
    ledger->append(id, std::span(tokens).subspan(admission->cached_tokens), request.at);
    ledger->commit(id);
    ledger->release(id, request.at);
  }
  figures.hit_tokens = ledger->totals().hit_tokens;
  figures.evicted_blocks = ledger->totals().evicted_blocks;
  CHECK(ledger->verify().empty(), ledger->verify());
  return figures;
}

}  // namespace refrain::cli
