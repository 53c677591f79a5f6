// Model: a loaded GGUF file: shape, vocabulary, template and weights. Loading happens in two
// checks: our own bounded header validator (gguf_check.h), then ggml. Immutable after load; any
// thread may read shape and vocabulary, the engine thread runs it through an Executor.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/hash.h"
#include "base/result.h"
#include "model/shape.h"
#include "text/vocabulary.h"

namespace refrain::model {

struct LoadOptions {
  std::string path;
  std::uint32_t max_context = 0;   // 0 = the model's own; fixes rope scaling at load
  // Called while loading with the share done, 0..1; may be empty.
  std::function<void(double)> on_progress = {};
};

class Weights;  // tensors, model/ only

class Model {
 public:
  // kNotFound, kDataLoss (cut or malformed file: file, field and offset named), kUnsupported
  // (architecture or tensor type, with the list of supported ones).
  static Result<std::unique_ptr<Model>> load(const LoadOptions& options);
  ~Model();

  const std::string& path() const;
  const ModelShape& shape() const;
  const text::Vocabulary& vocabulary() const;
  const std::string& chat_template() const;   // "" if the file has none
  std::uint32_t max_context() const;          // tokens per request this process allows
  std::string quantization() const;           // e.g. "Q4_1": the type most weights have
  // Hash over the file's header, size and samples of its tensor data; part of every cache key.
  const Hash128& fingerprint() const;
  const Weights& weights() const;

 private:
  class Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::model
