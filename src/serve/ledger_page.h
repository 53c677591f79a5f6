// GET /v1/ledger: what was planned at the start against what is used now, for each running request
// what it holds, and how long a token takes against what reading alone would take. Reads copies
// that the engine makes after each step, so it never waits for the engine. Any thread.
#pragma once

#include "serve/http_message.h"
#include "serve/key_ring.h"
#include "serve/server.h"

namespace refrain::serve {

// A caller sees the rows of its own tenant; the admin key, and anybody where no keys are set, all.
HttpResponse ledger_page(const ServerParts& parts, const Caller& caller);

}  // namespace refrain::serve
