// Loads a model: file, shape, vocabulary, template, fingerprint, weights. Runs on the loading
// thread.
#include "model/model.h"

#include "base/str.h"
#include "model/fingerprint.h"
#include "model/gguf_file.h"
#include "model/model_facts.h"
#include "model/shape_reader.h"
#include "model/vocabulary_reader.h"
#include "model/weights.h"

namespace refrain::model {
namespace {

// Shares of the loading time, for progress: header and vocabulary first, then the weights.
constexpr double kHeaderShare = 0.1;

}  // namespace

class Model::Impl {
 public:
  std::string path;
  ModelShape shape;
  text::Vocabulary vocabulary;
  std::string chat_template;
  std::uint32_t max_context = 0;
  std::string quantization;
  Hash128 fingerprint;
  std::unique_ptr<Weights> weights;
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

Result<std::unique_ptr<Model>> Model::load(const LoadOptions& options) {
  const auto report = [&](double share) {
    if (options.on_progress) options.on_progress(share);
  };
  report(0.0);
  auto impl = std::make_unique<Impl>();
  impl->path = options.path;
  ASSIGN_OR_RETURN(auto file, GgufFile::open(options.path));
  ASSIGN_OR_RETURN(impl->shape, read_shape(*file));
  ASSIGN_OR_RETURN(impl->vocabulary, read_vocabulary(*file, impl->shape.vocabulary_size));
  ASSIGN_OR_RETURN(auto chat_template, file->get_text("tokenizer.chat_template"));
  impl->chat_template = std::move(chat_template).value_or("");
  impl->max_context = options.max_context == 0 ? impl->shape.context_length : options.max_context;
  if (impl->max_context > impl->shape.context_length) {
    return Error{Code::kInvalidArgument,
                 str_cat("a context of ", impl->max_context, " tokens is more than the ",
                         impl->shape.context_length, " this model was trained for"),
                 str_cat("set `--max-context` to at most ", impl->shape.context_length),
                 "max_context"};
  }
  impl->quantization = main_weight_type(*file);
  impl->fingerprint = fingerprint_of(*file);
  report(kHeaderShare);
  ASSIGN_OR_RETURN(impl->weights, Weights::load(std::move(file), impl->shape, [&](double share) {
                     report(kHeaderShare + (1.0 - kHeaderShare) * share);
                   }));
  report(1.0);
  return std::unique_ptr<Model>(new Model(std::move(impl)));
}

const std::string& Model::path() const {
  return impl_->path;
}
const ModelShape& Model::shape() const {
  return impl_->shape;
}
const text::Vocabulary& Model::vocabulary() const {
  return impl_->vocabulary;
}
const std::string& Model::chat_template() const {
  return impl_->chat_template;
}
std::uint32_t Model::max_context() const {
  return impl_->max_context;
}
std::string Model::quantization() const {
  return impl_->quantization;
}
const Hash128& Model::fingerprint() const {
  return impl_->fingerprint;
}
const Weights& Model::weights() const {
  return *impl_->weights;
}

}  // namespace refrain::model
