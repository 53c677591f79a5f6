// Engine events -> JSON bodies and SSE lines. No network, no engine.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/str.h"
#include "serve/chat_reply.h"
#include "serve/completion_reply.h"
#include "serve/embeddings.h"
#include "serve/error_shape.h"
#include "serve/json.h"

namespace refrain::serve {
namespace {

using engine::FinishReason;
using engine::TokenEvent;

TokenEvent text_event(const std::string& text, std::uint32_t choice = 0) {
  TokenEvent event;
  event.text = text;
  event.choice = choice;
  event.logprobs.push_back({TokenId{1}, text, -0.5F, {{TokenId{2}, "x", -1.5F}}});
  return event;
}

TokenEvent choice_finished(FinishReason reason = FinishReason::kStop, std::uint32_t choice = 0) {
  TokenEvent event;
  event.kind = TokenEvent::Kind::kChoiceFinished;
  event.finish_reason = reason;
  event.choice = choice;
  return event;
}

TokenEvent finished() {
  TokenEvent event;
  event.kind = TokenEvent::Kind::kFinished;
  event.usage = {.prompt_tokens = 10,
                 .cached_tokens = 8,
                 .computed_tokens = 2,
                 .completion_tokens = 3,
                 .miss_reason = kv::MissReason::kDiverged};
  event.timings.ttft_ms = 5;
  event.timings.prefill_ms = 4;
  event.timings.decode_ms = 6;
  return event;
}

const AnswerIdentity kIdentity{"id-1", 1700000000, "tiny", "fp_1"};

// The JSON of each data line; the last must be [DONE].
std::vector<Json> chunks_of(const std::string& stream) {
  std::vector<Json> chunks;
  EXPECT_TRUE(stream.ends_with("data: [DONE]\n\n"));
  for (const std::string_view line : split(stream, '\n')) {
    if (!line.starts_with("data: ") || line == "data: [DONE]") continue;
    Result<Json> json = parse_json(line.substr(6));
    EXPECT_TRUE(json.ok()) << line;
    if (json.ok()) chunks.push_back(std::move(*json));
  }
  return chunks;
}

// A member deep inside: at(json, {"choices", "0", "delta"}); null if there is none.
const Json& at(const Json& json, const std::vector<std::string>& path) {
  static const Json kNone{};
  const Json* here = &json;
  for (const std::string& step : path) {
    if (const JsonArray* items = here->array()) {
      const std::size_t index = static_cast<std::size_t>(std::stoul(step));
      if (index >= items->size()) return kNone;
      here = &(*items)[index];
    } else {
      here = here->find(step);
      if (here == nullptr) return kNone;
    }
  }
  return *here;
}

std::string text_at(const Json& json, const std::vector<std::string>& path) {
  const std::string* text = at(json, path).text();
  return text == nullptr ? "<none>" : *text;
}

std::int64_t number_at(const Json& json, const std::vector<std::string>& path) {
  const auto* number = std::get_if<std::int64_t>(&at(json, path).value);
  return number == nullptr ? -1 : *number;
}

std::string play(Reply& reply, std::vector<TokenEvent> events, std::uint32_t prompt = 0) {
  std::string out;
  for (TokenEvent& event : events) out += reply.take(prompt, std::move(event));
  return out;
}

IdSource ids(1);

TEST(ChatReply, whole_answer_has_usage_cached_tokens_provenance_and_timings) {  // O-43
  ChatReply reply({.frame = {.identity = kIdentity}}, ids);
  EXPECT_EQ(play(reply, {text_event("Hel"), text_event("lo"), choice_finished(), finished()}), "");
  const Json json = *parse_json(reply.finish());
  EXPECT_EQ(text_at(json, {"object"}), "chat.completion");
  EXPECT_EQ(text_at(json, {"choices", "0", "message", "content"}), "Hello");
  EXPECT_EQ(text_at(json, {"choices", "0", "finish_reason"}), "stop");
  EXPECT_EQ(number_at(json, {"usage", "total_tokens"}), 13);
  EXPECT_EQ(number_at(json, {"usage", "prompt_tokens_details", "cached_tokens"}), 8);
  EXPECT_EQ(number_at(json, {"usage", "refrain", "provenance", "exact"}), 8);
  EXPECT_EQ(number_at(json, {"usage", "refrain", "provenance", "computed"}), 2);
  EXPECT_EQ(text_at(json, {"usage", "refrain", "miss_reason"}), "diverged");
  EXPECT_EQ(number_at(json, {"timings", "prompt_tokens_computed"}), 2);
  EXPECT_TRUE(at(json, {"choices", "0", "logprobs"}).is_null());
}

TEST(ChatReply, usage_tells_moved_and_repaired_tokens_apart) {
  TokenEvent end = finished();
  end.usage.cached_tokens = 1;
  end.usage.moved_tokens = 5;
  end.usage.repaired_tokens = 3;
  end.usage.computed_tokens = 1;
  end.usage.divergence_estimate = 0.015625;
  for (const bool stream : {false, true}) {
    ChatReply reply({.frame = {.identity = kIdentity, .stream = stream, .include_usage = true},
                     .choice_count = 2},
                    ids);
    std::string out = play(reply, {text_event("a"), text_event("b", 1), choice_finished(),
                                   choice_finished(FinishReason::kStop, 1), end});
    out += reply.finish();
    const Json json = stream ? chunks_of(out).back() : *parse_json(out);
    // Not computed, and the request asked for it.
    EXPECT_EQ(number_at(json, {"usage", "prompt_tokens_details", "cached_tokens"}), 6);
    EXPECT_EQ(to_text(at(json, {"usage", "refrain", "provenance"})),
              R"({"exact":1,"moved":5,"repaired":3,"computed":1})");
    EXPECT_EQ(to_text(at(json, {"usage", "refrain", "divergence_estimate"})), "0.015625");
    EXPECT_TRUE(at(json, {"usage", "refrain", "reuse_refusal"}).is_null());
    EXPECT_EQ(number_at(json, {"timings", "prompt_tokens_computed"}), 4);
  }
}

TEST(ChatReply, usage_says_why_found_text_was_computed) {
  using enum engine::ReuseRefusal;
  const std::pair<engine::ReuseRefusal, const char*> cases[] = {{kNone, "<none>"},
                                                                {kUncalibrated, "uncalibrated"},
                                                                {kDivergence, "divergence"},
                                                                {kNoRoom, "no_room"},
                                                                {kUnsupported, "unsupported"}};
  for (const auto& [refusal, text] : cases) {
    TokenEvent end = finished();
    end.usage.refusal = refusal;
    ChatReply reply({.frame = {.identity = kIdentity}}, ids);
    play(reply, {text_event("a"), choice_finished(), end});
    const Json json = *parse_json(reply.finish());
    EXPECT_EQ(text_at(json, {"usage", "refrain", "reuse_refusal"}), text);
    EXPECT_TRUE(at(json, {"usage", "refrain", "divergence_estimate"}).is_null());
  }
}

TEST(CompletionReply, usage_of_several_prompts_is_the_sum_with_the_largest_divergence) {
  CompletionReply reply({.frame = {.identity = kIdentity}, .prompt_count = 4});
  const std::optional<double> estimates[] = {std::nullopt, 0.0, 0.25, 0.125};
  for (std::uint32_t prompt = 0; prompt < 4; ++prompt) {
    TokenEvent end = finished();
    end.usage.cached_tokens = 4;
    end.usage.moved_tokens = prompt;
    end.usage.repaired_tokens = 1;
    end.usage.computed_tokens = 5 - prompt;
    end.usage.divergence_estimate = estimates[prompt];
    if (prompt == 1) end.usage.refusal = engine::ReuseRefusal::kNoRoom;
    if (prompt == 2) end.usage.refusal = engine::ReuseRefusal::kDivergence;
    play(reply, {choice_finished(), end}, prompt);
  }
  const Json json = *parse_json(reply.finish());
  EXPECT_EQ(number_at(json, {"usage", "prompt_tokens"}), 40);
  EXPECT_EQ(number_at(json, {"usage", "prompt_tokens_details", "cached_tokens"}), 22);
  EXPECT_EQ(to_text(at(json, {"usage", "refrain", "provenance"})),
            R"({"exact":16,"moved":6,"repaired":4,"computed":14})");
  EXPECT_EQ(to_text(at(json, {"usage", "refrain", "divergence_estimate"})), "0.25");
  EXPECT_EQ(text_at(json, {"usage", "refrain", "reuse_refusal"}), "no_room");
}

TEST(ChatReply, stream_begins_with_the_role_and_has_no_usage_unless_asked) {  // O-19
  ChatReply reply({.frame = {.identity = kIdentity, .stream = true}}, ids);
  std::string stream =
      play(reply, {text_event("Hel"), text_event("lo"), choice_finished(), finished()});
  const std::vector<Json> chunks = chunks_of(stream + reply.finish());
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(text_at(chunks[0], {"choices", "0", "delta", "role"}), "assistant");
  EXPECT_EQ(text_at(chunks[0], {"choices", "0", "delta", "content"}), "Hel");
  EXPECT_EQ(text_at(chunks[1], {"choices", "0", "delta", "role"}), "<none>");
  EXPECT_EQ(text_at(chunks[2], {"choices", "0", "finish_reason"}), "stop");
  EXPECT_NE(chunks[2].find("timings"), nullptr);
  for (const Json& chunk : chunks) {
    EXPECT_EQ(chunk.find("usage"), nullptr);
    EXPECT_EQ(at(chunk, {"choices"}).array()->size(), 1U);
    EXPECT_EQ(text_at(chunk, {"id"}), "id-1");
    EXPECT_EQ(number_at(chunk, {"created"}), 1700000000);
    EXPECT_EQ(text_at(chunk, {"model"}), "tiny");
  }
}

TEST(ChatReply, stream_with_usage_has_one_extra_chunk_after_the_finish) {  // O-19
  ChatReply reply({.frame = {.identity = kIdentity, .stream = true, .include_usage = true}}, ids);
  std::string stream = play(reply, {text_event("a"), choice_finished(), finished()});
  const std::vector<Json> chunks = chunks_of(stream + reply.finish());
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_TRUE(chunks[0].find("usage")->is_null());
  EXPECT_TRUE(chunks[1].find("usage")->is_null());
  EXPECT_TRUE(at(chunks[2], {"choices"}).array()->empty());
  EXPECT_EQ(number_at(chunks[2], {"usage", "prompt_tokens_details", "cached_tokens"}), 8);
}

TEST(ChatReply, no_new_text_still_gives_every_choice_and_usage) {  // O-13: max_tokens 0
  ChatReply whole({.frame = {.identity = kIdentity}, .choice_count = 2}, ids);
  play(whole, {finished()});
  const Json json = *parse_json(whole.finish());
  ASSERT_EQ(at(json, {"choices"}).array()->size(), 2U);
  EXPECT_EQ(text_at(json, {"choices", "1", "message", "content"}), "");
  EXPECT_EQ(text_at(json, {"choices", "1", "finish_reason"}), "length");
  ChatReply stream({.frame = {.identity = kIdentity, .stream = true}}, ids);
  play(stream, {finished()});
  EXPECT_EQ(text_at(chunks_of(stream.finish())[0], {"choices", "0", "delta", "role"}), "assistant");
}

TEST(ChatReply, logprobs_of_a_stream_sum_to_those_of_the_whole_answer) {  // O-45
  const std::vector<TokenEvent> events = {text_event("a"), text_event(""),    text_event("b"),
                                          text_event(""),  choice_finished(), finished()};
  ChatReply whole({.frame = {.identity = kIdentity}, .logprobs = true}, ids);
  play(whole, events);
  const Json json = *parse_json(whole.finish());
  EXPECT_EQ(at(json, {"choices", "0", "logprobs", "content"}).array()->size(), 4U);
  EXPECT_EQ(number_at(json, {"choices", "0", "logprobs", "content", "0", "bytes", "0"}), 'a');
  EXPECT_EQ(
      text_at(json, {"choices", "0", "logprobs", "content", "0", "top_logprobs", "0", "token"}),
      "x");
  ChatReply stream({.frame = {.identity = kIdentity, .stream = true}, .logprobs = true}, ids);
  std::string text = play(stream, events);
  std::size_t count = 0;
  for (const Json& chunk : chunks_of(text + stream.finish()))
    if (const JsonArray* items = at(chunk, {"choices", "0", "logprobs", "content"}).array())
      count += items->size();
  EXPECT_EQ(count, 4U);
}

TEST(ChatReply, streamed_calls_have_their_own_index_and_join_to_the_whole_answer) {  // O-22
  const std::vector<TokenEvent> events = {
      text_event("Wait.\n<tool_"),
      text_event("call>\n{\"name\": \"get\", \"argu"),
      text_event("ments\": {\"a\": [1, \"}\"]"),
      text_event("}}\n</tool_call>\n<tool_call>"),
      text_event("{\"name\":\"put\",\"arguments\":{}}</tool_call>"),
      choice_finished(),
      finished()};
  ChatReply whole({.frame = {.identity = kIdentity}, .parse_tool_calls = true}, ids);
  play(whole, events);
  const Json json = *parse_json(whole.finish());
  EXPECT_EQ(text_at(json, {"choices", "0", "finish_reason"}), "tool_calls");
  EXPECT_EQ(text_at(json, {"choices", "0", "message", "content"}), "Wait.");
  EXPECT_EQ(text_at(json, {"choices", "0", "message", "tool_calls", "0", "function", "arguments"}),
            R"({"a": [1, "}"]})");
  ChatReply stream({.frame = {.identity = kIdentity, .stream = true}, .parse_tool_calls = true},
                   ids);
  std::string text = play(stream, events);
  std::vector<std::string> arguments(2), names(2), call_ids(2);
  for (const Json& chunk : chunks_of(text + stream.finish())) {
    const Json& call = at(chunk, {"choices", "0", "delta", "tool_calls", "0"});
    if (call.is_null()) continue;
    const auto index = static_cast<std::size_t>(number_at(call, {"index"}));
    ASSERT_LT(index, 2U);
    if (text_at(call, {"id"}) != "<none>") {
      EXPECT_EQ(call_ids[index], "");  // announced once
      EXPECT_EQ(text_at(call, {"type"}), "function");
      EXPECT_EQ(text_at(call, {"function", "arguments"}), "");
      call_ids[index] = text_at(call, {"id"});
      names[index] = text_at(call, {"function", "name"});
    } else {
      EXPECT_EQ(text_at(call, {"function", "name"}), "<none>");
    }
    arguments[index] += text_at(call, {"function", "arguments"});
  }
  EXPECT_EQ(names, (std::vector<std::string>{"get", "put"}));
  EXPECT_EQ(arguments, (std::vector<std::string>{R"({"a": [1, "}"]})", "{}"}));
  EXPECT_NE(call_ids[0], call_ids[1]);
}

TEST(ChatReply, an_answer_of_calls_alone_has_null_content) {  // O-22
  ChatReply reply({.frame = {.identity = kIdentity}, .parse_tool_calls = true}, ids);
  play(reply, {text_event("<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"),
               choice_finished(), finished()});
  EXPECT_TRUE(at(*parse_json(reply.finish()), {"choices", "0", "message", "content"}).is_null());
}

TEST(CompletionReply, numbers_choices_through_all_prompts) {
  CompletionReply reply({.frame = {.identity = kIdentity}, .choice_count = 2, .prompt_count = 2});
  play(reply, {text_event("a", 0), text_event("b", 1), finished()}, 0);
  play(reply, {text_event("c", 0), text_event("d", 1), finished()}, 1);
  const std::string body = reply.finish();
  const Json json = *parse_json(body);
  for (const auto& [index, text] : {std::pair{"0", "a"}, {"1", "b"}, {"2", "c"}, {"3", "d"}})
    EXPECT_EQ(text_at(json, {"choices", index, "text"}), text);
  EXPECT_EQ(number_at(json, {"usage", "prompt_tokens"}), 20);
  // Timings are those of one request, and so is the speed: 3 tokens in 10 ms.
  EXPECT_NE(body.find("\"prompt_tokens_computed\":2,\"tokens_per_second\":300"), std::string::npos);
}

TEST(CompletionReply, echo_puts_the_prompt_and_its_logprobs_in_front) {  // O-45
  CompletionReply reply(
      {.frame = {.identity = kIdentity}, .top_logprobs = 1, .echo_texts = {"né"}});
  TokenEvent end = finished();
  end.prompt_logprobs.push_back({TokenId{5}, "né", std::numeric_limits<float>::quiet_NaN(), {}});
  play(reply, {text_event("a"), choice_finished(), end});
  const Json json = *parse_json(reply.finish());
  EXPECT_EQ(text_at(json, {"choices", "0", "text"}), "néa");
  EXPECT_TRUE(at(json, {"choices", "0", "logprobs", "token_logprobs", "0"}).is_null());
  EXPECT_TRUE(at(json, {"choices", "0", "logprobs", "top_logprobs", "0"}).is_null());
  EXPECT_EQ(number_at(json, {"choices", "0", "logprobs", "text_offset", "1"}), 2);  // characters
  EXPECT_EQ(text_at(json, {"choices", "0", "logprobs", "tokens", "1"}), "a");
}

TEST(CompletionReply, writes_a_token_that_is_part_of_a_character_as_bytes) {  // O-17, O-45
  CompletionReply reply({.frame = {.identity = kIdentity}, .top_logprobs = 0});
  TokenEvent event;
  event.logprobs.push_back({TokenId{1}, "\xF0\x9F", -1.0F, {}});
  event.logprobs.push_back({TokenId{2}, "\xA6\x99", -1.0F, {}});
  event.text = "\xF0\x9F\xA6\x99";
  play(reply, {event, choice_finished(), finished()});
  const Json json = *parse_json(reply.finish());
  EXPECT_EQ(text_at(json, {"choices", "0", "logprobs", "tokens", "0"}), "bytes:\\xf0\\x9f");
  EXPECT_TRUE(at(json, {"choices", "0", "logprobs", "top_logprobs"}).is_null());
}

TEST(CompletionReply, streams_text_finish_usage_and_done_in_this_order) {  // O-19
  CompletionReply reply(
      {.frame = {.identity = kIdentity, .stream = true, .include_usage = true}, .choice_count = 2});
  std::string text =
      play(reply, {text_event("a", 0), choice_finished(FinishReason::kLength, 1),
                   text_event("b", 0), choice_finished(FinishReason::kStop, 0), finished()});
  const std::vector<Json> chunks = chunks_of(text + reply.finish());
  ASSERT_EQ(chunks.size(), 5U);
  EXPECT_EQ(number_at(chunks[2], {"choices", "0", "index"}), 1);
  EXPECT_EQ(text_at(chunks[2], {"choices", "0", "finish_reason"}), "length");
  EXPECT_EQ(text_at(chunks[3], {"choices", "0", "finish_reason"}), "stop");
  EXPECT_TRUE(at(chunks[4], {"choices"}).array()->empty());
}

TEST(EmbeddingReply, gives_floats_or_little_endian_base64) {
  TokenEvent event = finished();
  event.embedding = {1.0F, -0.5F};
  EmbeddingReply floats(kIdentity, 1, false);
  floats.take(0, event);
  EXPECT_NE(floats.finish().find("\"embedding\":[1,-0.5]"), std::string::npos);
  EmbeddingReply base64(kIdentity, 1, true);
  base64.take(0, event);
  EXPECT_NE(base64.finish().find("\"embedding\":\"AACAPwAAAL8=\""), std::string::npos);
  EXPECT_EQ(to_base64("a"), "YQ==");
  EXPECT_EQ(to_base64("ab"), "YWI=");
  EXPECT_EQ(to_base64("abc"), "YWJj");
}

TEST(ErrorShape, gives_status_type_code_param_and_hint) {  // O-14, O-31
  const HttpResponse response =
      error_response(Error{Code::kContextLength, "too \xFF long", "shorten it", "messages"});
  EXPECT_EQ(response.status, 400U);
  const Json json = *parse_json(response.body);
  EXPECT_EQ(text_at(json, {"error", "code"}), "context_length_exceeded");
  EXPECT_EQ(text_at(json, {"error", "type"}), "invalid_request_error");
  EXPECT_EQ(text_at(json, {"error", "param"}), "messages");
  EXPECT_EQ(text_at(json, {"error", "hint"}), "shorten it");
  EXPECT_EQ(text_at(json, {"error", "message"}), "too \xEF\xBF\xBD long");
  const HttpResponse full = error_response(Error{Code::kQueueFull, "full"}, 2.2);
  EXPECT_EQ(full.status, 429U);
  EXPECT_EQ(full.headers[0].name, "Retry-After");
  EXPECT_EQ(full.headers[0].value, "3");
}

}  // namespace
}  // namespace refrain::serve
