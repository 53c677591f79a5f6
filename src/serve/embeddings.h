// Embeddings: the body of POST /v1/embeddings, checked, and its answer. One reply per call, on the
// connection's strand.
#pragma once

#include <string>
#include <vector>

#include "serve/answer_shape.h"
#include "serve/completion_request.h"
#include "serve/json.h"
#include "serve/reply.h"

namespace refrain::serve {

struct EmbeddingRequest {
  std::string model;
  std::vector<PromptInput> inputs;
  bool base64 = false;  // little-endian float32, as the OpenAI client asks for by itself
};

Result<EmbeddingRequest> read_embedding_request(const Json& body, std::size_t vocabulary_size,
                                                std::uint32_t embedding_dim);

class EmbeddingReply final : public Reply {
 public:
  EmbeddingReply(AnswerIdentity identity, std::size_t input_count, bool base64);
  std::string take(std::uint32_t prompt, engine::TokenEvent event) override;
  std::string finish() override;

 private:
  const AnswerIdentity identity_;
  const bool base64_;
  std::vector<std::vector<float>> vectors_;
  CallTotals totals_;
};

std::string to_base64(std::string_view bytes);

}  // namespace refrain::serve
