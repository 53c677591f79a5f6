// Reads the affinity mask and the processor's topology from Linux. Any thread.
#include "model/core_count.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <utility>

namespace refrain::model {
namespace {

// -1 if the kernel does not say.
int topology_number(int cpu, const char* file) {
  std::ifstream in("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/" + file);
  int number = -1;
  return in >> number ? number : -1;
}

}  // namespace

std::uint32_t physical_core_count() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  std::set<std::pair<int, int>> cores;
  std::uint32_t unknown = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const int package = topology_number(cpu, "physical_package_id");
    const int core = topology_number(cpu, "core_id");
    if (core < 0) {
      ++unknown;
    } else {
      cores.emplace(package, core);
    }
  }
  const auto count = static_cast<std::uint32_t>(cores.size()) + unknown;
  return count > 0 ? count : 1;
}

std::uint32_t compute_thread_count(std::uint32_t wanted) {
  constexpr std::uint32_t kMost = 64;  // more do not pay for models that fit a CPU
  return std::clamp(wanted == 0 ? physical_core_count() : wanted, 1U, kMost);
}

}  // namespace refrain::model
