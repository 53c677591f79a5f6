// What a model file says about itself without its weights: metadata and tensor table are read and
// checked, tensor data is not touched. Plain functions, any thread.
#pragma once

#include <string>

#include "base/result.h"
#include "model/gguf_file.h"
#include "model/shape.h"

namespace refrain::model {

struct ModelFacts {
  ModelShape shape;
  std::string quantization;  // the type most weights have, as ggml writes it: "Q4_1"
};

// Errors as Model::load().
Result<ModelFacts> read_model_facts(const std::string& path);

// The type that most values of the layers' matrices have; embeddings and norms, which files often
// keep in another type, do not count. "" if there is no layer.
std::string main_weight_type(const GgufFile& file);

}  // namespace refrain::model
