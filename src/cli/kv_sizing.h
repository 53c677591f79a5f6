// How many blocks the arena gets and how long a request may be, from budget and model. Pure
// arithmetic plus one reader of the system's free memory. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace refrain::cli {

struct KvSizingInput {
  std::uint64_t budget_bytes = 0;     // 0 = auto
  std::uint64_t available_bytes = 0;  // free memory after loading the weights
  std::uint64_t bytes_per_token = 0;
  std::uint32_t block_size = 16;
  std::uint32_t wanted_context = 0;  // 0 = the model's own, cut to the budget
  std::uint32_t model_context = 0;
};

struct KvSizing {
  std::uint64_t budget_bytes = 0;  // what was decided
  std::uint32_t block_count = 0;
  std::uint32_t max_context = 0;
  // The option that allows longer requests; "" = none does, the model has no longer context.
  std::string_view longer_by = {};
  bool automatic = false;          // the budget was chosen here
  std::vector<std::string> notes;  // what a user should know
};

// kInvalidArgument (field --kv-budget or --max-context) when one full context does not fit.
Result<KvSizing> size_kv(const KvSizingInput& input);

// Hint about what is longer than max_context: "use shorter cases, or raise --kv-budget".
std::string too_long_hint(const KvSizing& sizing, std::string_view remedy);

// Folder of the process's control group, from the text of /proc/self/cgroup.
std::string control_group_folder(const std::string& self_cgroup);
// Memory that can be had without swapping: MemAvailable, within the limit of the control group.
std::uint64_t available_memory_bytes();
// The same from the texts of /proc/meminfo and of the group's limit and use ("" = none).
std::uint64_t available_memory_bytes(const std::string& meminfo, const std::string& group_limit,
                                     const std::string& group_use);

}  // namespace refrain::cli
