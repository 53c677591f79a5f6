// Sizing of the arena. Any thread.
#include "cli/kv_sizing.h"

#include <algorithm>
#include <charconv>

#include "base/str.h"
#include "capacity/ledgers.h"
#include "cli/files.h"

namespace refrain::cli {
namespace {

constexpr std::uint64_t kMostAutomaticBytes = std::uint64_t{4} << 30U;
constexpr std::uint32_t kShareOfAvailable = 4;  // a quarter

std::uint64_t number_in(std::string_view text) {
  text = trim(text);
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc{} ? value : 0;
}

}  // namespace

Result<KvSizing> size_kv(const KvSizingInput& input) {
  CHECK(input.bytes_per_token > 0 && input.block_size > 0 && input.model_context > 0,
        "sizing without a model");
  KvSizing sizing;
  const std::uint64_t block_bytes = input.bytes_per_token * input.block_size;
  const std::uint32_t wanted =
      input.wanted_context > 0 ? input.wanted_context : input.model_context;
  const std::uint64_t wanted_bytes = capacity::blocks_for(wanted, input.block_size) * block_bytes;
  sizing.budget_bytes = input.budget_bytes;
  if (input.budget_bytes == 0) {
    sizing.automatic = true;
    sizing.budget_bytes = std::min(input.available_bytes / kShareOfAvailable, kMostAutomaticBytes);
    // A context asked for by name comes first, as long as there is memory for it at all.
    if (input.wanted_context > 0) sizing.budget_bytes = std::max(sizing.budget_bytes, wanted_bytes);
    if (sizing.budget_bytes > input.available_bytes) {
      return Error{
          Code::kInvalidArgument,
          str_cat("a context of ", wanted, " tokens takes ", format_bytes(wanted_bytes),
                  ", but only ", format_bytes(input.available_bytes), " of memory are free"),
          "lower --max-context", "--max-context"};
    }
  }
  sizing.block_count =
      capacity::blocks_in(sizing.budget_bytes, input.bytes_per_token, input.block_size);
  const std::uint64_t fits = std::uint64_t{sizing.block_count} * input.block_size;
  if (input.wanted_context > 0 && fits < input.wanted_context) {
    return Error{
        Code::kInvalidArgument,
        str_cat("--kv-budget ", format_bytes(sizing.budget_bytes), " holds ", fits,
                " tokens, less than --max-context ", input.wanted_context),
        str_cat("raise --kv-budget to ", format_bytes(wanted_bytes), " or lower --max-context"),
        "--kv-budget"};
  }
  constexpr std::uint64_t kLeastContext = 16;
  if (fits < kLeastContext) {
    return Error{Code::kInvalidArgument,
                 str_cat("--kv-budget ", format_bytes(sizing.budget_bytes),
                         " holds not even one block of ", input.block_size, " tokens"),
                 str_cat("a context of ", wanted, " tokens takes ", format_bytes(wanted_bytes)),
                 "--kv-budget"};
  }
  sizing.max_context = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, fits));
  if (sizing.max_context < input.model_context)
    sizing.longer_by = sizing.max_context < wanted ? "--kv-budget" : "--max-context";
  if (sizing.max_context < wanted) {
    sizing.notes.push_back(
        str_cat("requests may have ", sizing.max_context, " tokens instead of the model's ", wanted,
                ": that is what the budget of ", format_bytes(sizing.budget_bytes), " holds"));
  }
  return sizing;
}

std::string too_long_hint(const KvSizing& sizing, std::string_view remedy) {
  if (sizing.longer_by.empty()) return str_cat(remedy, ": the model has no longer context");
  return str_cat(remedy, ", or raise ", sizing.longer_by);
}

std::uint64_t available_memory_bytes(const std::string& meminfo, const std::string& group_limit,
                                     const std::string& group_use) {
  std::uint64_t available = 0;
  for (const std::string_view line : split(meminfo, '\n')) {
    constexpr std::string_view kKey = "MemAvailable:";
    if (line.starts_with(kKey)) available = number_in(line.substr(kKey.size())) * 1024;
  }
  const std::uint64_t limit = number_in(group_limit);  // 0 for "max"
  if (limit > 0) {
    const std::uint64_t use = number_in(group_use);
    available = std::min(available, limit > use ? limit - use : 0);
  }
  return available;
}

std::string control_group_folder(const std::string& self_cgroup) {
  // "0::/system.slice/refrain.service" is the line of version 2.
  for (const std::string_view line : split(self_cgroup, '\n')) {
    if (line.starts_with("0::/")) return str_cat("/sys/fs/cgroup", line.substr(3));
  }
  return "/sys/fs/cgroup";
}

std::uint64_t available_memory_bytes() {
  constexpr std::size_t kMost = 64U << 10U;
  const auto text = [](const std::string& path) {
    const Result<std::string> read = read_file(path, kMost);
    return read.ok() ? *read : std::string{};
  };
  const std::string group = control_group_folder(text("/proc/self/cgroup"));
  return available_memory_bytes(text("/proc/meminfo"), text(group + "/memory.max"),
                                text(group + "/memory.current"));
}

}  // namespace refrain::cli
