// Reads a ModelShape out of a GGUF file: the architecture's metadata, each number within a sane
// range, then every tensor held against the shape. After that the forward pass can trust both.
// Plain functions, loading thread.
//
// Sources of the rules: the GGUF conventions of ggml's converters; Llama 3.1 (rope_freqs.weight
// divides the frequencies); YaRN (Peng et al. 2023, arXiv 2309.00071); Gemma 3 report
// (arXiv 2503.19786: five local layers to one global, local base 10,000, QK norm).
#pragma once

#include "base/result.h"
#include "model/gguf_file.h"
#include "model/shape.h"

namespace refrain::model {

// kInvalidArgument: a number is missing, out of range or contradicts another (key named);
// kUnsupported: architecture or feature not offered (with the list); kDataLoss: a tensor is
// missing or has other dimensions than the shape says (tensor named).
Result<ModelShape> read_shape(const GgufFile& file);

// "llama, qwen2, qwen3, gemma3".
std::string supported_architectures();

}  // namespace refrain::model
