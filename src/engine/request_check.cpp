#include "engine/request_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/str.h"

namespace refrain::engine {
namespace {

Error invalid(std::string message, std::string hint, std::string field) {
  return Error{Code::kInvalidArgument, std::move(message), std::move(hint), std::move(field)};
}

Result<void> check_tokens(const TokenList& tokens, std::uint32_t vocabulary_size,
                          const char* field) {
  for (const TokenId token : tokens)
    if (to_int(token) < 0 || static_cast<std::uint32_t>(to_int(token)) >= vocabulary_size)
      return invalid(str_cat("token ", to_int(token), " is not in the vocabulary of ",
                             vocabulary_size, " tokens"),
                     "use token ids of this model; /tokenize gives them", field);
  return {};
}

Result<void> check_context(const GenerateRequest& request, const RequestLimits& limits) {
  const ContextWish& context = request.context;
  if (context.policy == nullptr) return {};
  const bool looks = context.policy->look != model::TrimLook::kNone;
  if (!limits.trim || (looks && !limits.can_look))
    return invalid(str_cat("`", context.policy->name, "` needs what these kernels do not give"),
                   looks && limits.trim
                       ? "use the policy window, or start the server without --kernels ggml"
                       : "leave `context` out",
                   "context.policy");
  // What stays within the budget is never cut. The last token that is generated has no row.
  const std::size_t rows = request.prompt.size() + std::max(request.max_tokens, 1U) - 1;
  model::TrimBounds bounds = *limits.trim;
  if (request.max_tokens > 1 && rows > context.budget_tokens)
    bounds.head_rows = static_cast<std::uint32_t>(request.head_tokens);
  const std::uint32_t least = model::least_trim_budget(bounds);
  if (context.budget_tokens >= least) return {};
  const bool has_head = least > model::least_trim_budget(*limits.trim);
  return invalid(
      str_cat("`budget_tokens` is ", context.budget_tokens,
              has_head ? str_cat("; the system turn always stays and has ", request.head_tokens,
                                 " tokens, so that at least ")
                       : std::string(", at least "),
              least, has_head ? " are needed" : " are needed here"),
      str_cat("raise it (--context-budget-tokens), ", has_head ? "shorten the system turn, " : "",
              R"(or keep all of the context ("context": "none", --context-policy none))"),
      "context.budget_tokens");
}

Result<void> fit_context(GenerateRequest& request, const RequestLimits& limits) {
  const bool pool_is_smaller = limits.max_context == 0 || limits.pool_tokens < limits.max_context;
  const std::uint32_t room = pool_is_smaller ? limits.pool_tokens : limits.max_context;
  const bool generates = request.task == Task::kGenerate && request.max_tokens > 0;
  const std::size_t prompt = request.prompt.size();
  if (prompt + (generates ? 1 : 0) > room)
    return Error{Code::kContextLength,
                 str_cat("prompt has ", prompt, " tokens, ",
                         pool_is_smaller ? "the KV budget holds " : "context holds ", room),
                 pool_is_smaller ? "shorten the prompt or raise the KV budget"
                                 : "shorten the prompt; it must leave room for one new token",
                 "prompt"};
  if (request.task == Task::kEmbed) request.max_tokens = 0;
  request.max_tokens = std::min(request.max_tokens, room - static_cast<std::uint32_t>(prompt));
  return {};
}

}  // namespace

Result<void> check_and_fit(GenerateRequest& request, const RequestLimits& limits) {
  if (request.prompt.empty())
    return invalid("the prompt has no tokens", "send at least one token", "prompt");
  RETURN_IF_ERROR(check_tokens(request.prompt, limits.vocabulary_size, "prompt"));
  RETURN_IF_ERROR(check_tokens(request.stop_tokens, limits.vocabulary_size, "stop_token_ids"));
  RETURN_IF_ERROR(request.sampling.validate(limits.vocabulary_size));
  if (request.choice_count < 1 || request.choice_count > kMaxChoices)
    return invalid(str_cat("`n` is ", request.choice_count, ", allowed is 1 to ", kMaxChoices),
                   "ask for fewer choices", "n");
  if (std::any_of(request.stop.begin(), request.stop.end(),
                  [](const std::string& text) { return text.empty(); }))
    return invalid("a stop string is empty", "leave `stop` out instead", "stop");
  if (!std::isfinite(request.reuse.max_divergence) || request.reuse.max_divergence < 0)
    return invalid(str_cat("`max_divergence` is ", request.reuse.max_divergence),
                   "give the largest mean KL in nats, 0 or more", "reuse.max_divergence");
  const double changed = request.reuse.max_changed_first_tokens;
  if (!(changed >= 0.0 && changed <= 1.0))
    return invalid(str_cat("`max_changed_first_tokens` is ", changed), "give a share, 0 to 1",
                   "reuse.max_changed_first_tokens");
  RETURN_IF_ERROR(fit_context(request, limits));
  return check_context(request, limits);
}

}  // namespace refrain::engine
