// POST /tokenize and /detokenize: what the model would see, and back. Field names as other servers
// have them: `content` or `prompt`, or `messages` for a whole chat.
#include "base/str.h"
#include "serve/api.h"
#include "serve/json_writer.h"

namespace refrain::serve {
namespace {

struct TokenizeOptions {
  bool add_special = false;    // BOS, if the vocabulary asks for it
  bool parse_special = false;  // control tokens written out in the text count
  bool with_pieces = false;
};

TokenizeOptions read_options(FieldReader& read) {
  TokenizeOptions options;
  read.boolean("add_special", &options.add_special);
  read.boolean("add_special_tokens", &options.add_special);
  read.boolean("parse_special", &options.parse_special);
  read.boolean("with_pieces", &options.with_pieces);
  return options;
}

// A piece as text, or as an array of bytes when it is only part of a character.
void write_piece(JsonWriter& out, TokenId id, std::string_view piece) {
  out.begin_object().field("id", to_int(id)).key("piece");
  if (is_valid_utf8(piece)) {
    out.value(piece);
  } else {
    out.begin_array();
    for (const char byte : piece) out.value(static_cast<unsigned char>(byte));
    out.end_array();
  }
  out.end_object();
}

}  // namespace

Result<Prepared> Api::tokenize(const Json& body) const {
  FieldReader read(body, "");
  if (read.failed()) return read.error();
  const TokenizeOptions options = read_options(read);
  TokenList tokens;
  if (read.any("messages") != nullptr) {
    ChatRequest request;
    read_prompt_fields(read, &request);
    if (read.failed()) return read.error();
    (void)normalize(request);
    ASSIGN_OR_RETURN(text::EncodedPrompt prompt, encoder_.encode(render_input(request)));
    tokens = std::move(prompt.tokens);
  } else {
    std::string text;
    const bool found = read.text("content", &text) || read.text("prompt", &text);
    if (!found) read.fail("content", "is missing", "send `content`, `prompt` or `messages`");
    if (read.failed()) return read.error();
    tokens = parts_.tokenizer->encode(
        text, {.add_bos = options.add_special, .parse_special = options.parse_special});
  }
  JsonWriter out;
  out.begin_object().key("tokens").begin_array();
  for (const TokenId token : tokens) {
    if (options.with_pieces) {
      write_piece(out, token, parts_.tokenizer->piece(token, true));
    } else {
      out.value(to_int(token));
    }
  }
  out.end_array().field("count", tokens.size()).field("max_model_len", parts_.max_context);
  out.end_object();
  return Prepared{.response = {.body = out.take()}};
}

Result<Prepared> Api::detokenize(const Json& body) const {
  FieldReader read(body, "");
  if (read.failed()) return read.error();
  bool render_special = true;
  read.boolean("render_special", &render_special);
  const Json* array = read.array("tokens");
  if (array == nullptr) read.fail("tokens", "is missing", "send an array of token ids");
  if (read.failed()) return read.error();
  ASSIGN_OR_RETURN(const TokenList tokens, read_tokens(*array, "tokens", parts_.tokenizer->size()));
  const std::string text = parts_.tokenizer->decode(tokens, render_special);
  JsonWriter out;
  out.begin_object().field("content", text).field("prompt", text).end_object();
  return Prepared{.response = {.body = out.take()}};
}

}  // namespace refrain::serve
