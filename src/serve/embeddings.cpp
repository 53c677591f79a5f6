// See embeddings.h.
#include "serve/embeddings.h"

#include <bit>
#include <cstring>

#include "base/str.h"

namespace refrain::serve {

static_assert(std::endian::native == std::endian::little, "base64 vectors are little-endian");

Result<EmbeddingRequest> read_embedding_request(const Json& body, std::size_t vocabulary_size,
                                                std::uint32_t embedding_dim) {
  EmbeddingRequest request;
  FieldReader read(body, "");
  if (read.failed()) return read.error();
  read.text("model", &request.model);
  request.inputs = read_prompts(read, "input", vocabulary_size);
  std::string format = "float";
  read.text("encoding_format", &format);
  if (format != "float" && format != "base64")
    read.fail("encoding_format", "must be `float` or `base64`");
  std::int64_t dimensions = 0;
  if (read.integer("dimensions", 1, std::numeric_limits<std::int32_t>::max(), &dimensions) &&
      dimensions != embedding_dim)
    read.fail("dimensions", str_cat("cannot be changed; this model gives ", embedding_dim), "",
              Code::kUnsupported);
  request.base64 = format == "base64";
  if (read.failed()) return read.error();
  return request;
}

EmbeddingReply::EmbeddingReply(AnswerIdentity identity, std::size_t input_count, bool base64)
    : identity_(std::move(identity)), base64_(base64), vectors_(input_count) {}

std::string EmbeddingReply::take(std::uint32_t prompt, engine::TokenEvent event) {
  if (event.kind == engine::TokenEvent::Kind::kFinished) {
    totals_.add(event);
    vectors_[prompt] = std::move(event.embedding);
  }
  return {};
}

std::string EmbeddingReply::finish() {
  JsonWriter out;
  out.begin_object().field("object", "list").key("data").begin_array();
  for (std::size_t index = 0; index < vectors_.size(); ++index) {
    const std::vector<float>& vector = vectors_[index];
    out.begin_object().field("object", "embedding").field("index", index).key("embedding");
    if (base64_) {
      std::string bytes(vector.size() * sizeof(float), '\0');
      std::memcpy(bytes.data(), vector.data(), bytes.size());
      out.value(to_base64(bytes));
    } else {
      out.begin_array();
      for (const float value : vector) out.value(value);
      out.end_array();
    }
    out.end_object();
  }
  out.end_array().field("model", identity_.model);
  write_usage(out.key("usage"), totals_.usage());
  out.end_object();
  return out.take();
}

std::string to_base64(std::string_view bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = (group << 8U) | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      out += j <= count ? kDigits[(group >> (18U - 6U * j)) & 63U] : '=';
  }
  return out;
}

}  // namespace refrain::serve
