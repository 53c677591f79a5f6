// Byte-level byte-pair encoding as GPT-2, Llama 3, Qwen and SmolLM use it: user-defined tokens
// first, then words (pre_tokenizer.h), then merges inside each word, starting from its bytes.
// Any bytes are accepted and come back exactly, as far as the vocabulary has tokens for them; a
// byte without a token is left out, as the reference implementations do. Immutable; any thread.
#pragma once

#include <memory>

#include "base/result.h"
#include "text/plain_encoder.h"
#include "text/token_table.h"

namespace refrain::text {

// `table` must outlive the encoder. Fails with kUnsupported (pre-tokenizer) or kInvalidArgument
// (a merge names a token that is not in the vocabulary).
Result<std::unique_ptr<PlainEncoder>> make_byte_pair_encoder(const TokenTable& table);

}  // namespace refrain::text
