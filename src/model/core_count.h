// How many threads are worth using here. Any thread.
#pragma once

#include <cstdint>

namespace refrain::model {

// Physical cores that this process may run on: hardware threads of one core count once. At least 1.
std::uint32_t physical_core_count();

// Compute threads for --threads: 0 means the physical cores.
std::uint32_t compute_thread_count(std::uint32_t wanted);

}  // namespace refrain::model
