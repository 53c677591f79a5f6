// SentencePiece-style byte-pair encoding as Llama 2, Mistral and Gemma files use it (Kudo &
// Richardson 2018): blanks become "▁", user-defined tokens are matched first and never merge,
// then the pair of neighbours whose joined token has the highest score merges, from single
// characters on. Characters without a token become byte tokens <0xXX>, or the unknown token.
// Ill-formed bytes become byte tokens as well, so that any bytes come back exactly (except that
// a literal "▁" comes back as a blank, as in SentencePiece itself). Immutable; any thread.
#pragma once

#include <memory>

#include "text/plain_encoder.h"
#include "text/token_table.h"

namespace refrain::text {

// `table` must outlive the encoder and hold a checked SentencePiece vocabulary.
std::unique_ptr<PlainEncoder> make_sentence_piece_encoder(const TokenTable& table);

}  // namespace refrain::text
