// See server_core.h.
#include "serve/server_core.h"

#include <algorithm>

#include "serve/info_pages.h"
#include "serve/ledger_page.h"

namespace refrain::serve {
namespace {

constexpr std::uint64_t kBodyBytesTogether = 256ULL << 20U;

}  // namespace

ServerCore::ServerCore(const ServerParts& parts, const ServerOptions& options)
    : parts_(parts),
      options_(options),
      started_s_(unix_now_s()),
      door_(options),
      submitter_(*parts.engine),
      encoder_(*parts.tokenizer, parts.chat_template, parts.max_context, parts.longer_by),
      summaries_(encoder_, submitter_, *parts.metrics, parts.max_context),
      api_(parts, options, encoder_, summaries_),
      environment_{.engine = &submitter_,
                   .clock = parts.clock,
                   .phase = &phase_,
                   .comment_interval = options.keep_alive_comment_s * kSecond},
      bodies_(std::max<std::uint64_t>(kBodyBytesTogether, 2 * options.max_body_bytes)) {}

std::optional<HttpResponse> ServerCore::page(const Admission& admission) const {
  const Route& route = admission.route;
  switch (route.endpoint) {
    case Endpoint::kHealth:
      return health_page(parts_, phase() != ServePhase::kServing);
    case Endpoint::kMetrics:
      return metrics_page(parts_);
    case Endpoint::kLedger:
      return ledger_page(parts_, admission.caller);
    case Endpoint::kModels:
      return models_page(parts_, options_, started_s_);
    case Endpoint::kModel:
      return model_page(parts_, options_, started_s_, route.rest);
    default:
      return std::nullopt;
  }
}

std::optional<Error> ServerCore::closed() const {
  if (phase() == ServePhase::kServing) return std::nullopt;
  return Error{Code::kUnavailable, "the server is shutting down", "send the request again later"};
}

void ServerCore::count_refused(const Route& route) const {
  const bool for_engine = route.endpoint == Endpoint::kChatCompletions ||
                          route.endpoint == Endpoint::kCompletions ||
                          route.endpoint == Endpoint::kEmbeddings;
  if (!for_engine) return;
  parts_.metrics->add(metrics::Metric::kRequestsReceived, 1);
  parts_.metrics->add_labeled(metrics::Metric::kRequestsFinished, "rejected", 1);
}

void ServerCore::count_response(unsigned status) const {
  static constexpr std::string_view kClasses[] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
  if (status >= 100 && status < 600)
    parts_.metrics->add_labeled(metrics::Metric::kHttpResponses, kClasses[status / 100 - 1], 1);
}

void ServerCore::count_connections(std::size_t count) const {
  parts_.metrics->set(metrics::Metric::kConnections, static_cast<double>(count));
}

}  // namespace refrain::serve
