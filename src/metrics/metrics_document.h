// docs/reference/metrics.md, made from the table of metrics. A pure function; any thread.
#pragma once

#include <string>

namespace refrain::metrics {

// The whole page.
std::string metrics_document();

}  // namespace refrain::metrics
