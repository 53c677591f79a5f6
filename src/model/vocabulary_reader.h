// Reads the vocabulary (keys tokenizer.ggml.*) and checks that its lists agree in length and its
// ids lie inside. Plain functions, loading thread.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/gguf_file.h"
#include "text/vocabulary.h"

namespace refrain::model {

// `vocabulary_size`: rows of the token embedding; the token list must have as many.
// kInvalidArgument naming the key at fault; kUnsupported for another kind of tokenizer.
Result<text::Vocabulary> read_vocabulary(const GgufFile& file, std::uint32_t vocabulary_size);

}  // namespace refrain::model
