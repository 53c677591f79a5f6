// module: serve
// Request bodies: the JSON reader and the three request readers take any bytes. What is accepted
// must survive a round trip; what is refused must give an error body that is valid JSON.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"
#include "serve/chat_request.h"
#include "serve/completion_request.h"
#include "serve/embeddings.h"
#include "serve/error_shape.h"
#include "serve/json_writer.h"
#include "serve/tool_calls.h"

namespace {

using namespace refrain;         // NOLINT: a fuzz target is its own program
using namespace refrain::serve;  // NOLINT

constexpr std::size_t kVocabulary = 1000;

void check_error(const Error& error) {
  CHECK(parse_json(error_body(error)).ok(), "an error body is not JSON");
  CHECK(error_shape(error.code).status < 500, "a body gave a server error");
}

// Pieces of any size give what one piece gives.
void check_tool_calls(std::string_view text) {
  const auto joined = [&](std::size_t size) {
    ToolCallParser parser;
    std::string all;
    const auto add = [&](const std::vector<AnswerPiece>& pieces) {
      for (const AnswerPiece& piece : pieces)
        if (piece.kind != AnswerPiece::Kind::kContent) all += piece.text;
    };
    for (std::size_t at = 0; at < text.size(); at += size) add(parser.push(text.substr(at, size)));
    add(parser.finish());
    return all;
  };
  CHECK(joined(3) == joined(text.size() + 1), "calls depend on how the text is cut");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_tool_calls(text.substr(0, 200));
  const Result<Json> body = parse_json(text, {.max_depth = 64, .max_values = 10000});
  if (!body.ok()) {
    check_error(body.error());
    return 0;
  }
  const std::string written = to_text(*body);
  const Result<Json> again = parse_json(written);
  CHECK(again.ok() && to_text(*again) == written, "a written value reads back differently");

  const GenerationDefaults defaults;
  if (const auto chat = read_chat_request(*body, defaults); !chat.ok()) {
    check_error(chat.error());
  } else {
    CHECK(!chat->messages.empty(), "a chat without messages was accepted");
    CHECK(chat->generation.sampling.validate(1U << 31U).ok(), "sampling out of range was accepted");
    const double divergence = chat->generation.reuse.max_divergence;
    CHECK(divergence >= 0 && divergence <= kLargestMaxDivergence, "a limit out of range");
  }
  if (const auto completion = read_completion_request(*body, defaults, kVocabulary);
      !completion.ok())
    check_error(completion.error());
  if (const auto embedding = read_embedding_request(*body, kVocabulary, 64); !embedding.ok())
    check_error(embedding.error());
  return 0;
}
