// JSON in -> checked fields, or an error that names the field. No network, no engine.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "base/str.h"
#include "serve/chat_request.h"
#include "serve/completion_request.h"
#include "serve/embeddings.h"
#include "serve/error_shape.h"
#include "serve/server.h"

namespace refrain::serve {
namespace {

constexpr std::size_t kVocabulary = 1000;
const GenerationDefaults kDefaults{
    .max_choices = 16,
    .reuse = {.mode = engine::ReuseMode::kSplice, .max_divergence = 0.5},
    .context = {.policy = model::trim_policy_named("window"), .budget_tokens = 512}};

Result<ChatRequest> chat(const std::string& text) {
  ASSIGN_OR_RETURN(const Json body, parse_json(text));
  return read_chat_request(body, kDefaults);
}

// A chat request with one user turn and these further members.
Result<ChatRequest> chat_with(const std::string& members) {
  return chat(R"({"messages":[{"role":"user","content":"hi"}],)" + members + "}");
}

Result<ChatRequest> chat_of(const std::string& messages) {
  return chat(R"({"messages":)" + messages + "}");
}

Result<CompletionRequest> completion(const std::string& text) {
  ASSIGN_OR_RETURN(const Json body, parse_json(text));
  return read_completion_request(body, kDefaults, kVocabulary);
}

template <typename T>
std::string fault(const Result<T>& result) {
  return result.ok() ? "accepted" : result.error().field;
}

TEST(ChatRequest, reads_the_usual_fields) {
  const auto request = chat_with(
      R"("model":"m","temperature":0,"top_p":0.5,"top_k":7,"min_p":0.1,"seed":18446744073709551615,
         "presence_penalty":-1,"frequency_penalty":1.5,"repeat_penalty":1.25,"n":3,
         "logit_bias":{"5":-100,"7":2.5},"stop":["a","b"],"max_completion_tokens":9,
         "stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,
         "cache_prompt":false,"user":"x","metadata":{"k":"v"},"unknown_field":[1,2])");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const GenerationFields& fields = request->generation;
  EXPECT_EQ(fields.model, "m");
  EXPECT_EQ(fields.sampling.temperature, 0.0F);
  EXPECT_EQ(fields.sampling.top_p, 0.5F);
  EXPECT_EQ(fields.sampling.top_k, 7);
  EXPECT_EQ(fields.sampling.min_p, 0.1F);
  EXPECT_EQ(fields.sampling.seed, 18446744073709551615ULL);
  EXPECT_EQ(fields.sampling.presence_penalty, -1.0F);
  EXPECT_EQ(fields.sampling.frequency_penalty, 1.5F);
  EXPECT_EQ(fields.sampling.repetition_penalty, 1.25F);
  ASSERT_EQ(fields.sampling.logit_bias.size(), 2U);
  EXPECT_EQ(fields.sampling.logit_bias[1].token, TokenId{7});
  EXPECT_EQ(fields.sampling.logit_bias[1].bias, 2.5F);
  EXPECT_EQ(fields.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(fields.max_tokens, 9U);
  EXPECT_EQ(fields.choice_count, 3U);
  EXPECT_TRUE(fields.stream && fields.include_usage && fields.ignore_eos);
  EXPECT_FALSE(fields.use_cache);
  EXPECT_EQ(fields.sampling.top_logprobs, -1);
}

TEST(ChatRequest, gives_defaults_where_a_field_is_absent_or_null) {
  const auto request = chat_with(
      R"("temperature":null,"stop":null,"max_tokens":null,"seed":null,"tools":null,"logprobs":null)");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->generation.sampling.temperature, kDefaults.sampling.temperature);
  EXPECT_FALSE(request->generation.max_tokens.has_value());
  EXPECT_FALSE(request->generation.sampling.seed.has_value());
  EXPECT_FALSE(request->generation.stream);
}

TEST(ChatRequest, reuse_is_an_object_or_the_name_of_a_mode) {
  using enum engine::ReuseMode;
  struct Case {
    const char* members;
    engine::ReuseMode mode;
    double max_divergence;
  };
  const Case cases[] = {
      {R"("n":1)", kSplice, 0.5},  // the server's own
      {R"("reuse":null)", kSplice, 0.5},
      {R"("reuse":{})", kSplice, 0.5},
      {R"("reuse":"exact")", kExact, 0.5},
      {R"("reuse":"repair")", kRepair, 0.5},
      {R"("reuse":{"mode":"repair"})", kRepair, 0.5},
      {R"("reuse":{"mode":null,"max_divergence":null})", kSplice, 0.5},
      {R"("reuse":{"max_divergence":0.02})", kSplice, 0.02},
      {R"("reuse":{"mode":"exact","max_divergence":0})", kExact, 0.0},
      {R"("reuse":{"max_divergence":10,"mode":"splice"})", kSplice, 10.0},
  };
  for (const Case& each : cases) {
    const auto request = chat_with(each.members);
    ASSERT_TRUE(request.ok()) << each.members << ": " << request.error().message;
    EXPECT_EQ(request->generation.reuse.mode, each.mode) << each.members;
    EXPECT_EQ(request->generation.reuse.max_divergence, each.max_divergence) << each.members;
    const auto same = completion(str_cat(R"({"prompt":"a",)", each.members, "}"));
    ASSERT_TRUE(same.ok()) << each.members << ": " << same.error().message;
    EXPECT_EQ(same->generation.reuse.mode, each.mode) << each.members;
    EXPECT_EQ(same->generation.reuse.max_divergence, each.max_divergence) << each.members;
  }
}

TEST(ChatRequest, context_is_an_object_or_none) {
  struct Case {
    const char* members;
    const char* policy;
    std::uint32_t budget_tokens;
  };
  const Case cases[] = {
      {R"("n":1)", "window", 512},  // the server's own
      {R"("context":null)", "window", 512},
      {R"("context":{})", "window", 512},
      {R"("context":"none")", "", 0},
      {R"("context":{"policy":"none"})", "", 512},
      {R"("context":{"policy":"kvzip"})", "kvzip", 512},
      {R"("context":"kvzip")", "kvzip", 512},
      {R"("context":{"budget_tokens":64})", "window", 64},
      {R"("context":{"policy":"heavy_hitters","budget_tokens":1024})", "heavy_hitters", 1024},
  };
  for (const Case& each : cases) {
    const auto request = chat_with(each.members);
    ASSERT_TRUE(request.ok()) << each.members << ": " << request.error().message;
    const engine::ContextWish& context = request->generation.context;
    EXPECT_EQ(context.policy == nullptr ? "" : context.policy->name, each.policy) << each.members;
    EXPECT_EQ(context.budget_tokens, each.budget_tokens) << each.members;
  }
}

struct WrongMember {
  const char* members;
  const char* field;
  const char* said;  // in message or hint
};

// By both endpoints.
void expect_refused(std::initializer_list<WrongMember> cases) {
  for (const WrongMember& each : cases) {
    const auto request = chat_with(each.members);
    EXPECT_EQ(fault(request), each.field) << each.members;
    if (request.ok()) continue;
    EXPECT_EQ(request.error().code, Code::kInvalidArgument);
    const std::string all = str_cat(request.error().message, " ", request.error().hint);
    EXPECT_NE(all.find(each.said), std::string::npos) << each.members << ": " << all;
    EXPECT_EQ(fault(completion(str_cat(R"({"prompt":"a",)", each.members, "}"))), each.field);
  }
}

TEST(ChatRequest, wrong_context_names_the_member_and_says_what_is_right) {
  expect_refused({
      {R"("context":"best")", "context", "none, window, heavy_hitters"},
      {R"("context":7)", "context", R"("policy": "heavy_hitters")"},
      {R"("context":{"policy":"h2o"})", "context.policy", "none, window, heavy_hitters"},
      {R"("context":{"policy":1})", "context.policy", "must be a string"},
      {R"("context":{"budget_tokens":0})", "context.budget_tokens", "between 1 and"},
      {R"("context":{"budget_tokens":1.5})", "context.budget_tokens", "integer"},
      {R"("context":{"policy":"window","budget":9})", "context.budget", "`budget_tokens`"},
  });
}

TEST(ChatRequest, wrong_reuse_names_the_member_and_says_what_is_right) {
  expect_refused({
      {R"("reuse":true)", "reuse", R"("mode": "repair")"},
      {R"("reuse":0.05)", "reuse", "an object or a string"},
      {R"("reuse":["repair"])", "reuse", "an object or a string"},
      {R"("reuse":"")", "reuse", "exact, repair or splice"},
      {R"("reuse":"Repair")", "reuse", "exact, repair or splice"},
      {R"("reuse":{"mode":"fast"})", "reuse.mode", "exact, repair or splice, not `fast`"},
      {R"("reuse":{"mode":1})", "reuse.mode", "must be a string"},
      {R"("reuse":{"mode":"exact","max_divergence":"0.1"})", "reuse.max_divergence", "a number"},
      {R"("reuse":{"max_divergence":-0.01})", "reuse.max_divergence", "between 0 and 10"},
      {R"("reuse":{"max_divergence":10.5})", "reuse.max_divergence", "between 0 and 10"},
      {R"("reuse":{"max_divergence":true})", "reuse.max_divergence", "a number"},
      {R"("reuse":{"max_changed_first_tokens":1.5})", "reuse.max_changed_first_tokens",
       "between 0 and 1"},
      {R"("reuse":{"max_divergance":0.1})", "reuse.max_divergance", "`mode`, `max_divergence` and"},
      {R"("reuse":{"mode":"repair","rung":2})", "reuse.rung", "`mode`, `max_divergence` and"},
  });
  const auto long_word = chat_with(str_cat(R"("reuse":")", std::string(39, 'a'), "\xC3\xA9\""));
  ASSERT_FALSE(long_word.ok());  // cut inside a character
  EXPECT_TRUE(is_valid_utf8(long_word.error().message));
}

TEST(ChatRequest, names_the_field_of_a_wrong_type_or_range) {  // O-13, O-18, O-24, O-45
  const std::pair<const char*, const char*> cases[] = {
      {R"("temperature":-1)", "temperature"},
      {R"("temperature":999999)", "temperature"},
      {R"("temperature":"hot")", "temperature"},
      {R"("top_p":-1)", "top_p"},
      {R"("top_p":2)", "top_p"},
      {R"("top_k":-5)", "top_k"},
      {R"("min_p":1)", "min_p"},
      {R"("repeat_penalty":0)", "repeat_penalty"},
      {R"("repetition_penalty":-1)", "repetition_penalty"},
      {R"("presence_penalty":3)", "presence_penalty"},
      {R"("logit_bias":{"5":"x"})", "logit_bias"},
      {R"("logit_bias":{"five":1})", "logit_bias"},
      {R"("logit_bias":{"-5":1})", "logit_bias"},
      {R"("logit_bias":{"5":101})", "logit_bias"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("n":0)", "n"},
      {R"("n":1000)", "n"},
      {R"("seed":-2)", "seed"},
      {R"("seed":1.5)", "seed"},
      {R"("stop":7)", "stop"},
      {R"("stop":[""])", "stop"},
      {R"("stop":["a",7])", "stop"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])",
       "stop"},
      {R"("logprobs":100)", "logprobs"},
      {R"("top_logprobs":5)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("max_tokens":-1)", "max_tokens"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("max_tokens":"10")", "max_tokens"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":1}})",
       "response_format.json_schema.schema"},
      {R"("tools":[{"type":"x"}])", "tools[0].type"},
      {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":"sometimes")", "tool_choice"},
      {R"("continue_final_message":true)", "continue_final_message"},
      {R"("model":5)", "model"},
  };
  for (const auto& [members, field] : cases) EXPECT_EQ(fault(chat_with(members)), field) << members;
}

TEST(ChatRequest, accepts_edge_values) {  // O-13, O-24
  for (const char* members :
       {R"("seed":9223372036854775808)", R"("seed":-1)", R"("top_k":-1)", R"("top_p":0)",
        R"("max_tokens":0)", R"("max_tokens":2147483648)", R"("max_tokens":99999999999999999999)",
        R"("max_tokens":10.0)", R"("n_keep":1000000000)", R"("top_logprobs":0)", R"("stop":"")",
        R"("stream_options":{"include_usage":true})"})
    EXPECT_EQ(fault(chat_with(members)), "accepted") << members;
  EXPECT_EQ(chat_with(R"("max_tokens":0)")->generation.max_tokens, 0U);
  EXPECT_GT(chat_with(R"("top_p":0)")->generation.sampling.top_p, 0.0F);
}

TEST(ChatRequest, reads_content_in_parts_like_one_string) {  // O-20
  const auto parts = chat_of(
      R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])");
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->messages[0].content, "ab");
  EXPECT_EQ(chat_of(R"([{"role":"user","content":[]}])")->messages[0].content, "");
  EXPECT_EQ(chat_of(R"([{"role":"user","content":""}])")->messages[0].content, "");
}

TEST(ChatRequest, refuses_what_a_text_model_cannot_take_by_name) {  // O-20
  const auto image = chat_of(
      R"([{"role":"user","content":[{"type":"text","text":"a"},
          {"type":"image_url","image_url":{"url":"data:"}}]}])");
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().field, "messages[0].content[1]");
  EXPECT_NE(image.error().message.find("image_url"), std::string::npos);
  EXPECT_EQ(error_shape(image.error().code).status, 400U);
  EXPECT_EQ(fault(chat_of("[]")), "messages");
  EXPECT_EQ(fault(chat(R"({"model":"x"})")), "messages");
  EXPECT_EQ(fault(chat_of(R"([{"role":"banana","content":"x"}])")), "messages[0].role");
  EXPECT_EQ(fault(chat_of(R"([{"content":"x"}])")), "messages[0].role");
  EXPECT_EQ(fault(chat_of(R"([{"role":"user","content":5}])")), "messages[0].content");
  EXPECT_EQ(fault(chat_of(R"([{"role":"user","content":null}])")), "messages[0].content");
  EXPECT_EQ(fault(chat_of(R"([{"role":"user"}])")), "messages[0].content");
  EXPECT_EQ(fault(chat_of("[5]")), "messages[0]");
  EXPECT_EQ(fault(chat("[1]")), "");
}

TEST(ChatRequest, accepts_an_assistant_turn_of_calls_without_content) {  // O-08, O-20
  for (const char* content : {R"("content":null,)", ""}) {
    const auto request =
        chat_of(str_cat(R"([{"role":"user","content":"x"},{"role":"assistant",)", content,
                        R"("tool_calls":[{"id":"c1","type":"function",
                   "function":{"name":"f","arguments":"{\"path\":\"x\",\"edits\":[1]}"}}]},
                   {"role":"tool","tool_call_id":"c1","content":"done"}])"));
    ASSERT_TRUE(request.ok()) << request.error().message;
    ASSERT_EQ(request->messages[1].tool_calls.size(), 1U);
    EXPECT_EQ(request->messages[1].tool_calls[0].arguments_json, R"({"path":"x","edits":[1]})");
    EXPECT_EQ(request->messages[2].tool_call_id, "c1");
    EXPECT_TRUE(request->add_generation_prompt);
  }
  // Arguments given as an object keep their order too.
  const auto object = chat_of(
      R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"z":1,"a":2}}}]}])");
  EXPECT_EQ(object->messages[0].tool_calls[0].arguments_json, R"({"z":1,"a":2})");
}

TEST(ChatRequest, maps_roles_that_templates_do_not_know) {  // O-20
  const auto request = chat_of(
      R"([{"role":"developer","content":"a"},{"role":"function","name":"f","content":"b"}])");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->messages[0].role, "system");
  EXPECT_EQ(request->messages[1].role, "tool");
}

TEST(ChatRequest, continues_a_last_message_of_the_assistant) {  // O-20
  for (const char* content : {R"("The ")", R"([{"type":"text","text":"The "}])"}) {
    const auto request = chat_of(
        str_cat(R"([{"role":"user","content":"x"},{"role":"assistant","content":)", content, "}]"));
    ASSERT_TRUE(request.ok());
    EXPECT_TRUE(request->continue_final_message);
    EXPECT_FALSE(request->add_generation_prompt);
  }
  const auto fresh =
      chat(R"({"messages":[{"role":"assistant","content":"x"}],"add_generation_prompt":true})");
  EXPECT_FALSE(fresh->continue_final_message);
  EXPECT_TRUE(fresh->add_generation_prompt);
}

constexpr const char* kTwoTools =
    R"("tools":[{"type":"function","function":{"name":"get","description":"d",
        "parameters":{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"number"}},
        "required":["b"]}}},{"type":"function","function":{"name":"put"}}])";

TEST(ToolFields, writes_tools_the_same_however_their_keys_are_ordered) {  // O-08
  const auto one = chat_with(kTwoTools);
  const auto other = chat_with(
      R"("tools":[ {"function":{"parameters":{"required":["b"],"properties":
         {"a":{"type":"number"},"b":{"type":"string"}},"type":"object"},
         "description":"\u0064","name":"get"},"type":"function"},
         {"type":"function","function":{"name":"put"}}])");
  ASSERT_TRUE(one.ok());
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(one->tools.tools_json, other->tools.tools_json);
  EXPECT_EQ(one->tools.choice, ToolChoice::kAuto);
  EXPECT_FALSE(one->tools.grammar.has_value());
  EXPECT_TRUE(parse_json(one->tools.tools_json).ok());
}

TEST(ToolFields, constrains_a_forced_call_to_the_tools_it_may_call) {
  const auto named = chat_with(
      str_cat(kTwoTools, R"(,"tool_choice":{"type":"function","function":{"name":"put"}})"));
  ASSERT_TRUE(named.ok()) << named.error().message;
  ASSERT_TRUE(named->tools.grammar.has_value());
  EXPECT_EQ(named->tools.grammar->kind, engine::GrammarSpec::Kind::kToolCall);
  EXPECT_EQ(named->tools.grammar->tools_json.find("\"get\""), std::string::npos);
  EXPECT_FALSE(named->tools.grammar->parallel_calls);
  const auto required = chat_with(str_cat(kTwoTools, R"(,"tool_choice":"required")"));
  EXPECT_TRUE(required->tools.grammar->parallel_calls);
  EXPECT_NE(required->tools.grammar->tools_json.find("\"get\""), std::string::npos);
  const auto none = chat_with(str_cat(kTwoTools, R"(,"tool_choice":"none")"));
  EXPECT_EQ(none->tools.tools_json, "");
  EXPECT_FALSE(none->tools.may_call());
  EXPECT_EQ(fault(chat_with(str_cat(
                kTwoTools, R"(,"tool_choice":{"type":"function","function":{"name":"no"}})"))),
            "tool_choice");
  EXPECT_EQ(fault(chat_with(str_cat(kTwoTools, R"(,"response_format":{"type":"json_object"})"))),
            "response_format");
}

TEST(ToolFields, reads_response_formats) {
  EXPECT_FALSE(chat_with(R"("response_format":{"type":"text"})")->tools.grammar.has_value());
  EXPECT_EQ(chat_with(R"("response_format":{"type":"json_object"})")->tools.grammar->kind,
            engine::GrammarSpec::Kind::kJsonObject);
  const auto schema = chat_with(
      R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":
         {"type":"object","properties":{"z":{},"a":{}}}}})");
  ASSERT_TRUE(schema.ok());
  EXPECT_EQ(schema->tools.grammar->schema_json,
            R"({"type":"object","properties":{"z":{},"a":{}}})");
}

TEST(CompletionRequest, reads_all_four_forms_of_a_prompt) {
  EXPECT_EQ(std::get<std::string>(completion(R"({"prompt":"a"})")->prompts[0]), "a");
  EXPECT_EQ(completion(R"({"prompt":["a","b"]})")->prompts.size(), 2U);
  const auto tokens = completion(R"({"prompt":[1,2,3]})");
  ASSERT_EQ(tokens->prompts.size(), 1U);
  EXPECT_EQ(std::get<TokenList>(tokens->prompts[0]).size(), 3U);
  EXPECT_EQ(completion(R"({"prompt":[[1,2],[3]]})")->prompts.size(), 2U);
}

TEST(CompletionRequest, names_the_field_at_fault) {  // O-24, O-45
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "prompt"},
      {R"({"prompt":null})", "prompt"},
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":5})", "prompt"},
      {R"({"prompt":[1,-1]})", "prompt"},
      {R"({"prompt":[1,1000]})", "prompt"},
      {R"({"prompt":[1,"a"]})", "prompt"},
      {R"({"prompt":["a",1]})", "prompt[1]"},
      {R"({"prompt":"a","suffix":"b"})", "suffix"},
      {R"({"prompt":"a","best_of":3})", "best_of"},
      {R"({"prompt":"a","logprobs":100})", "logprobs"},
      {R"({"prompt":"a","logprobs":true})", "logprobs"},
      {R"({"prompt":"a","echo":true,"logprobs":1,"stream":true})", "logprobs"},
  };
  for (const auto& [body, field] : cases) EXPECT_EQ(fault(completion(body)), field) << body;
  EXPECT_EQ(fault(completion(R"({"prompt":"a","suffix":"","best_of":1,"logprobs":5})")),
            "accepted");
}

TEST(EmbeddingRequest, checks_format_and_dimensions) {
  const auto read = [](const std::string& text) {
    return read_embedding_request(*parse_json(text), kVocabulary, 64);
  };
  EXPECT_TRUE(read(R"({"input":"a","encoding_format":"base64"})")->base64);
  EXPECT_EQ(read(R"({"input":["a","b"]})")->inputs.size(), 2U);
  EXPECT_EQ(fault(read(R"({"input":"a","encoding_format":"int8"})")), "encoding_format");
  EXPECT_EQ(fault(read(R"({"input":"a","dimensions":32})")), "dimensions");
  EXPECT_EQ(fault(read(R"({"input":"a","dimensions":64})")), "accepted");
  EXPECT_EQ(fault(read(R"({})")), "input");
}

}  // namespace
}  // namespace refrain::serve
