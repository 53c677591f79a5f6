// From a model's shape to the numbers the ledgers are made of, as this server stores and reads
// them: all layers keep K/V for the whole context, whatever their window. Pure; any thread.
#pragma once

#include "capacity/ledgers.h"
#include "model/kv_arena.h"
#include "model/shape.h"

namespace refrain::capacity {

// Memory, activations, context and block size are left to the caller.
LedgerInput ledger_input(const model::ModelShape& shape, model::KvFormat format);

}  // namespace refrain::capacity
