// See api.h. tokenize() and detokenize() are in tokenize.cpp.
#include "serve/api.h"

#include <algorithm>
#include <random>

#include "base/str.h"
#include "serve/chat_reply.h"
#include "serve/completion_reply.h"
#include "serve/embeddings.h"
#include "text/normalizer.h"

namespace refrain::serve {
namespace {

std::uint64_t process_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

constexpr std::string_view kToolCallEnd = "</tool_call>";

}  // namespace

Api::Api(const ServerParts& parts, const ServerOptions& options, const ChatEncoder& encoder,
         Summaries& summaries)
    : parts_(parts),
      options_(options),
      defaults_{.max_choices = options.max_choices,
                .sampling = options.default_sampling,
                .reuse = options.default_reuse,
                .context = options.default_context,
                .summary = options.default_summary},
      fingerprint_(
          "fp_" +
          to_hex(hash_text(str_cat(parts.model_name, '\0', parts.exactness))).substr(0, 10)),
      encoder_(encoder),
      summaries_(summaries),
      ids_(process_seed()) {}

AnswerIdentity Api::identity(std::string_view id_prefix) {
  return AnswerIdentity{ids_.next(id_prefix), unix_now_s(), parts_.model_name, fingerprint_};
}

FrameOptions Api::frame(std::string_view id_prefix, const GenerationFields& fields) {
  return FrameOptions{.identity = identity(id_prefix),
                      .stream = fields.stream,
                      .include_usage = fields.include_usage,
                      .return_progress = fields.return_progress};
}

Result<Prepared> Api::prepare(const Route& route, const HttpRequest& request,
                              const Caller& caller) {
  ASSIGN_OR_RETURN(const Json body,
                   parse_json(request.body, {.max_depth = options_.max_json_depth}));
  switch (route.endpoint) {
    case Endpoint::kChatCompletions:
      return chat(body, caller);
    case Endpoint::kCompletions:
      return completions(body, caller);
    case Endpoint::kEmbeddings:
      return embeddings(body, caller);
    case Endpoint::kTokenize:
      return tokenize(body);
    case Endpoint::kDetokenize:
      return detokenize(body);
    default:
      return Error{Code::kInternal, "this endpoint takes no body"};
  }
}

Result<void> Api::compile_grammar(PreparedCall& call) {
  if (!call.grammar.has_value()) return {};
  ASSIGN_OR_RETURN(const auto grammar, parts_.grammars->compile(*call.grammar));
  for (engine::GenerateRequest& request : call.requests) request.grammar = grammar;
  call.grammar.reset();
  return {};
}

Result<void> Api::check_model(const std::string& name) const {
  const auto& aliases = parts_.model_aliases;
  if (options_.any_model_name || name.empty() || name == parts_.model_name ||
      std::find(aliases.begin(), aliases.end(), name) != aliases.end())
    return {};
  return Error{Code::kNotFound,
               str_cat("the model `", to_valid_utf8(name.substr(0, 100)), "` does not exist"),
               str_cat("this server serves `", parts_.model_name, "`; `model` may be left out"),
               "model"};
}

Result<std::uint32_t> Api::fit_max_tokens(std::size_t prompt_tokens,
                                          std::optional<std::uint32_t> wanted,
                                          std::string_view field) const {
  const std::uint32_t most = std::min(wanted.value_or(options_.max_tokens), options_.max_tokens);
  const std::uint32_t least = most == 0 ? 0 : 1;
  if (prompt_tokens + least > parts_.max_context)
    return Error{
        Code::kContextLength,
        str_cat("the prompt has ", prompt_tokens, " tokens; the maximum context length is ",
                parts_.max_context, " tokens, answer included"),
        too_long_hint(parts_.longer_by), std::string(field)};
  return std::min(most, parts_.max_context - static_cast<std::uint32_t>(prompt_tokens));
}

Result<engine::GenerateRequest> Api::generate(text::EncodedPrompt prompt,
                                              const GenerationFields& fields, const Caller& caller,
                                              std::string_view field) const {
  if (prompt.tokens.empty())
    return Error{Code::kInvalidArgument, str_cat("`", field, "` holds no token"), "",
                 std::string(field)};
  engine::GenerateRequest request;
  ASSIGN_OR_RETURN(request.max_tokens,
                   fit_max_tokens(prompt.tokens.size(), fields.max_tokens, field));
  RETURN_IF_ERROR(fields.sampling.validate(parts_.tokenizer->size()));
  set_prompt(request, std::move(prompt));
  request.sampling = fields.sampling;
  request.choice_count = fields.choice_count;
  request.stop = fields.stop;
  request.ignore_eos = fields.ignore_eos;
  request.use_cache = fields.use_cache;
  request.reuse = fields.reuse;
  request.context = fields.context;
  request.tenant = caller.tenant;
  request.salt = cache_salt(fields, caller);
  if (options_.request_timeout_s > 0)
    request.deadline = parts_.clock->now() + options_.request_timeout_s * kSecond;
  return request;
}

bool Api::normalize(ChatRequest& request) const {
  return options_.normalize_input && text::normalize_user_messages(request.messages);
}

Hash128 Api::cache_salt(const GenerationFields& fields, const Caller& caller) {
  if (fields.cache_salt.empty()) return caller.salt;
  return hash_chain(caller.salt, std::as_bytes(std::span(fields.cache_salt)));
}

Result<Shortened> Api::encode_chat(const ChatRequest& request, const Caller& caller,
                                   const std::string& label) {
  const GenerationFields& fields = request.generation;
  if (!fields.summary.on) {
    ASSIGN_OR_RETURN(text::EncodedPrompt prompt, encoder_.encode(render_input(request)));
    return Shortened{.prompt = std::move(prompt)};
  }
  constexpr std::uint32_t kUsualAnswerTokens = 256;  // where the client does not say
  const std::uint32_t answer_tokens =
      std::min(fields.max_tokens.value_or(kUsualAnswerTokens), options_.max_tokens);
  return summaries_.shorten(render_input(request), fields.summary,
                            {.label = label,
                             .tenant = caller.tenant,
                             .salt = cache_salt(fields, caller),
                             .use_cache = fields.use_cache},
                            answer_tokens);
}

Result<Prepared> Api::chat(const Json& body, const Caller& caller) {
  ASSIGN_OR_RETURN(ChatRequest request, read_chat_request(body, defaults_));
  RETURN_IF_ERROR(check_model(request.generation.model));
  const bool normalized = normalize(request);
  ChatReplyOptions reply;
  reply.frame = frame("chatcmpl-", request.generation);
  ASSIGN_OR_RETURN(Shortened shortened, encode_chat(request, caller, reply.frame.identity.id));
  const bool may_call = request.tools.may_call();
  // Without parallel calls, the end of the first one ends the answer.
  if (may_call && !request.tools.parallel && !request.tools.grammar.has_value())
    request.generation.stop.emplace_back(kToolCallEnd);
  ASSIGN_OR_RETURN(engine::GenerateRequest generate_request,
                   generate(std::move(shortened.prompt), request.generation, caller, "messages"));
  reply.frame.notes.normalized = normalized;
  if (request.generation.summary.on) reply.frame.notes.summary = std::move(shortened.report);
  reply.logprobs = request.generation.sampling.top_logprobs >= 0;
  reply.parse_tool_calls = may_call;
  reply.only_tool_calls = may_call && request.tools.grammar.has_value();
  reply.choice_count = request.generation.choice_count;
  PreparedCall call;
  call.id = reply.frame.identity.id;
  generate_request.label = call.id;
  call.stream = reply.frame.stream;
  call.grammar = std::move(request.tools.grammar);
  call.requests.push_back(std::move(generate_request));
  call.reply = std::make_unique<ChatReply>(std::move(reply), ids_);
  // Then the turns to be summarised are in the cache.
  if (shortened.task.has_value())
    call.when_answering = [this, task = std::move(*shortened.task)] { summaries_.begin(task); };
  return Prepared{.call = std::move(call)};
}

Result<text::EncodedPrompt> Api::encode_input(const PromptInput& input, bool parse_special,
                                              std::string_view field) const {
  text::EncodedPrompt prompt;
  if (const std::string* text = std::get_if<std::string>(&input)) {
    RETURN_IF_ERROR(encoder_.check_length(text->size(), field));
    prompt.tokens =
        parts_.tokenizer->encode(*text, {.add_bos = true, .parse_special = parse_special});
  } else {
    prompt.tokens = std::get<TokenList>(input);
  }
  return prompt;
}

Result<Prepared> Api::completions(const Json& body, const Caller& caller) {
  ASSIGN_OR_RETURN(const CompletionRequest request,
                   read_completion_request(body, defaults_, parts_.tokenizer->size()));
  RETURN_IF_ERROR(check_model(request.generation.model));
  PreparedCall call;
  CompletionReplyOptions reply;
  for (const PromptInput& input : request.prompts) {
    ASSIGN_OR_RETURN(text::EncodedPrompt prompt,
                     encode_input(input, request.parse_special, "prompt"));
    if (request.echo) {
      const std::string* text = std::get_if<std::string>(&input);
      reply.echo_texts.push_back(text ? *text : parts_.tokenizer->decode(prompt.tokens, true));
    }
    ASSIGN_OR_RETURN(engine::GenerateRequest generate_request,
                     generate(std::move(prompt), request.generation, caller, "prompt"));
    generate_request.prompt_logprobs =
        request.echo && request.generation.sampling.top_logprobs >= 0;
    call.requests.push_back(std::move(generate_request));
  }
  reply.frame = frame("cmpl-", request.generation);
  reply.top_logprobs = request.generation.sampling.top_logprobs;
  reply.choice_count = request.generation.choice_count;
  reply.prompt_count = static_cast<std::uint32_t>(request.prompts.size());
  call.id = reply.frame.identity.id;
  for (engine::GenerateRequest& each : call.requests) each.label = call.id;
  call.stream = reply.frame.stream;
  call.reply = std::make_unique<CompletionReply>(std::move(reply));
  return Prepared{.call = std::move(call)};
}

Result<Prepared> Api::embeddings(const Json& body, const Caller& caller) {
  ASSIGN_OR_RETURN(const EmbeddingRequest request,
                   read_embedding_request(body, parts_.tokenizer->size(), parts_.embedding_dim));
  RETURN_IF_ERROR(check_model(request.model));
  GenerationFields nothing_generated;  // and exact reuse only: vectors are kept and compared
  nothing_generated.max_tokens = 0;
  PreparedCall call;
  for (const PromptInput& input : request.inputs) {
    ASSIGN_OR_RETURN(text::EncodedPrompt prompt, encode_input(input, false, "input"));
    ASSIGN_OR_RETURN(engine::GenerateRequest generate_request,
                     generate(std::move(prompt), nothing_generated, caller, "input"));
    generate_request.task = engine::Task::kEmbed;
    call.requests.push_back(std::move(generate_request));
  }
  AnswerIdentity own = identity("embd-");
  call.id = own.id;
  for (engine::GenerateRequest& each : call.requests) each.label = call.id;
  call.reply =
      std::make_unique<EmbeddingReply>(std::move(own), request.inputs.size(), request.base64);
  return Prepared{.call = std::move(call)};
}

}  // namespace refrain::serve
