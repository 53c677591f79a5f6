// See info_pages.h.
#include "serve/info_pages.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/str.h"
#include "serve/error_shape.h"
#include "serve/json_writer.h"
#include "serve/reuse_words.h"

namespace refrain::serve {
namespace {

void write_model(JsonWriter& out, const ServerParts& parts, const ServerOptions& options,
                 std::int64_t started_s) {
  out.begin_object().field("id", parts.model_name).field("object", "model");
  out.field("created", started_s).field("owned_by", "refrain");
  out.field("max_model_len", parts.max_context);
  out.key("refrain").begin_object().field("exactness", parts.exactness);
  out.field("context", parts.max_context).field("embedding_dim", parts.embedding_dim);
  out.field("vocabulary_size", parts.tokenizer->size());
  out.field("chat", parts.chat_template != nullptr);
  const engine::ReuseWish& reuse = options.default_reuse;
  out.key("reuse").begin_object().field("mode", reuse_mode_text(reuse.mode));
  out.field("max_divergence", reuse.max_divergence);
  out.field("max_changed_first_tokens", reuse.max_changed_first_tokens);
  // Where audits broke the promise, reuse stops as if nothing had been measured.
  out.field("calibrated", parts.calibrated && !parts.engine->snapshot().promise_broken);
  out.end_object();
  const engine::ContextWish& context = options.default_context;
  out.key("context_policy").begin_object();
  const SummaryRule& summary = options.default_summary;
  out.field("policy", summary.on                  ? kSummaryPolicy
                      : context.policy == nullptr ? kNoPolicy
                                                  : context.policy->name);
  out.field("budget_tokens", context.budget_tokens);
  if (summary.on)
    out.field("recent_turns", summary.recent_turns).field("split_turns", summary.split_turns);
  out.end_object();
  out.key("aliases").begin_array();
  for (const std::string& alias : parts.model_aliases) out.value(alias);
  out.end_array().end_object().end_object();
}

// Resident memory from the second number of /proc/self/statm, in pages; 0 where there is no such
// file.
double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double total_pages = 0;
  double resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

HttpResponse health_page(const ServerParts& parts, bool draining) {
  const engine::EngineSnapshot snapshot = parts.engine->snapshot();
  HttpResponse response;
  response.status = draining ? 503 : 200;
  if (draining) response.headers.push_back({"Retry-After", "1"});
  JsonWriter out;
  out.begin_object().field("status", draining ? "draining" : "ok");
  out.field("running", snapshot.running).field("waiting", snapshot.waiting).end_object();
  response.body = out.take();
  return response;
}

HttpResponse metrics_page(const ServerParts& parts) {
  parts.metrics->set(metrics::Metric::kProcessResidentBytes, resident_bytes());
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = parts.metrics->expose();
  return response;
}

HttpResponse models_page(const ServerParts& parts, const ServerOptions& options,
                         std::int64_t started_s) {
  JsonWriter out;
  out.begin_object().field("object", "list").key("data").begin_array();
  write_model(out, parts, options, started_s);
  out.end_array().end_object();
  return HttpResponse{.body = out.take()};
}

HttpResponse model_page(const ServerParts& parts, const ServerOptions& options,
                        std::int64_t started_s, std::string_view name) {
  const auto& aliases = parts.model_aliases;
  if (name != parts.model_name && std::find(aliases.begin(), aliases.end(), name) == aliases.end())
    return error_response(
        Error{Code::kNotFound,
              str_cat("the model `", to_valid_utf8(name.substr(0, 100)), "` does not exist"),
              str_cat("this server serves `", parts.model_name, "`"), "model"});
  JsonWriter out;
  write_model(out, parts, options, started_s);
  return HttpResponse{.body = out.take()};
}

}  // namespace refrain::serve
