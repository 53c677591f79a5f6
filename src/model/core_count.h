// How many threads are worth using here. Any thread.
#pragma once

#include <cstdint>

namespace refrain::model {

// Physical cores that this process may run on: hardware threads of one core count once. At least 1.
std::uint32_t physical_core_count();

}  // namespace refrain::model
