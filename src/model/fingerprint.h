// A model file's fingerprint: which weights a cached block was computed with. Hash over the header,
// the size, and samples of tensor data spread over the file, so that it takes milliseconds for any
// size of file: every change of shape, type, vocabulary or name is seen, a change of weights with
// the chance that a sample falls on it (retrained or requantized weights differ everywhere).
// Plain function, any thread.
#pragma once

#include "base/hash.h"
#include "model/gguf_file.h"

namespace refrain::model {

Hash128 fingerprint_of(const GgufFile& file);

}  // namespace refrain::model
