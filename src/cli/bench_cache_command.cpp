// `refrain bench cache`: trace, pools and policies in, hit rates out. Main thread.
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/input.h"
#include "cli/trace_replay.h"
#include "cli/units.h"

namespace refrain::cli {
namespace {

constexpr std::size_t kMostTraceBytes = 1U << 30U;

double share(std::uint64_t part, std::uint64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

nlohmann::ordered_json row_json(const ReplayFigures& row) {
  return {{"pool_blocks", row.pool_blocks},
          {"policy", kv::eviction_policy_name(row.policy)},
          {"requests", row.requests},
          {"too_long", row.too_long},
          {"blocks", row.blocks},
          {"hit_blocks", row.hit_blocks},
          {"block_hit_rate", share(row.hit_blocks, row.blocks)},
          {"token_hit_rate", share(row.hit_tokens, row.tokens)},
          {"evicted_blocks", row.evicted_blocks}};
}

std::string row_line(const ReplayFigures& row, std::string_view policy, double most) {
  std::array<char, 160> line{};
  const double rate = share(row.hit_blocks, row.blocks);
  std::snprintf(line.data(), line.size(), "%11u  %-9s %8.2f %% %8.2f %% %9.1f %% %12llu %9llu\n",
                row.pool_blocks, std::string(policy).c_str(), 100 * rate,
                100 * share(row.hit_tokens, row.tokens), most > 0 ? 100 * rate / most : 0,
                static_cast<unsigned long long>(row.evicted_blocks),
                static_cast<unsigned long long>(row.too_long));
  return line.data();
}

std::string as_text(const std::vector<ReplayFigures>& rows, const ReplayFigures& unbounded) {
  std::string text = str_cat(
      unbounded.requests, " requests of ", unbounded.blocks,
      " blocks; the pool in blocks, hits in per cent of them and of tokens\n",
      "       pool  policy        blocks     tokens   of the most      evicted  too long\n");
  const double most = share(unbounded.hit_blocks, unbounded.blocks);
  for (const ReplayFigures& row : rows)
    text += row_line(row, kv::eviction_policy_name(row.policy), most);
  return text + row_line(unbounded, "unbounded", most);
}

Result<std::vector<kv::EvictionPolicy>> policies_of(const std::string& text) {
  std::vector<kv::EvictionPolicy> policies;
  for (const std::string_view name : split(text, ',')) {
    const auto policy = kv::eviction_policy_named(trim(name));
    if (!policy)
      return Error{Code::kInvalidArgument, str_cat("`", name, "` is no eviction policy"),
                   "lru, lfu and gdsf, with commas between", "--policies"};
    policies.push_back(*policy);
  }
  return policies;
}

struct Replayed {
  std::vector<ReplayFigures> rows;
  ReplayFigures unbounded;
};

Result<Replayed> replay_all(const Settings& settings, Console& console) {
  const std::string& path = settings.text("--trace");
  if (path.empty())
    return Error{Code::kInvalidArgument, "no trace given", "--trace FILE", "--trace"};
  ASSIGN_OR_RETURN(const auto pools,
                   parse_token_counts(settings.text("--pools"), "--pools", 1, kMostIds));
  ASSIGN_OR_RETURN(const auto policies, policies_of(settings.text("--policies")));
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostTraceBytes));
  ASSIGN_OR_RETURN(const std::vector<TraceRequest> trace, parse_trace(text));
  Replayed replayed;
  for (const std::uint32_t pool : pools)
    for (const kv::EvictionPolicy policy : policies) {
      console.progress("replaying", static_cast<double>(replayed.rows.size()) /
                                        static_cast<double>(pools.size() * policies.size() + 1));
      replayed.rows.push_back(replay(trace, pool, policy));
    }
  replayed.unbounded = replay(trace, 0, kv::EvictionPolicy::kLru);
  console.end_progress();
  return replayed;
}

}  // namespace

Exit run_bench_cache(const Settings& settings, Console& console) {
  const Result<Replayed> replayed = replay_all(settings, console);
  if (!replayed.ok()) return fail(replayed.error(), console);
  if (!settings.boolean("--json")) {
    console.out(as_text(replayed->rows, replayed->unbounded));
    return Exit::kOk;
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ReplayFigures& row : replayed->rows) rows.push_back(row_json(row));
  const nlohmann::ordered_json json = {{"results", rows},
                                       {"unbounded", row_json(replayed->unbounded)}};
  console.out(json.dump(2) + "\n");
  return Exit::kOk;
}

}  // namespace refrain::cli
