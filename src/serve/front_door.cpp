// See front_door.h.
#include "serve/front_door.h"

#include "base/str.h"
#include "serve/error_shape.h"

namespace refrain::serve {
namespace {

std::string shown(std::string_view text) {
  return to_valid_utf8(text.substr(0, 100));
}

std::optional<HttpResponse> check_encoding(const HttpRequest& head) {
  const std::string_view encoding = head.header("Content-Encoding");
  if (encoding.empty() || equals_ignoring_case(encoding, "identity")) return std::nullopt;
  return error_response_with_status(
      415, Error{Code::kUnsupported,
                 str_cat("bodies with Content-Encoding `", shown(encoding), "` are not read"),
                 "send the body as it is"});
}

}  // namespace

FrontDoor::FrontDoor(const ServerOptions& options)
    : hosts_(options.allowed_hosts, options.host),
      cors_(options.allowed_origins),
      keys_(options.api_keys, options.admin_key) {}

std::optional<HttpResponse> FrontDoor::check_source(const HttpRequest& head) const {
  if (!head.has_header("Host") && !head.http_1_0)
    return error_response(Error{Code::kInvalidArgument, "the Host header is missing"});
  const std::string_view host = head.header("Host");
  if (!host.empty() && !hosts_.allows(host))
    return error_response(Error{Code::kForbidden,
                                str_cat("the host `", shown(host), "` is not one of this server's"),
                                "start the server with --allow-host NAME"});
  if (!cors_.allows(head))
    return error_response(
        Error{Code::kForbidden,
              str_cat("requests from the origin `", shown(head.header("Origin")), "` are refused"),
              "start the server with --cors-allow-origin ORIGIN"});
  return std::nullopt;
}

Admission FrontDoor::admit(const HttpRequest& head) const {
  Admission admission;
  admission.refusal = check_source(head);
  if (admission.refusal.has_value()) return admission;  // without CORS headers: it is refused
  admission.cors_headers = cors_.headers(head);

  RouteResult route = find_route(head.method, to_valid_utf8(head.path().substr(0, 512)));
  if (head.method == "OPTIONS" && !route.allow.empty()) {
    admission.refusal = cors_.preflight(head, route.allow);
  } else if (!route.found) {
    admission.refusal = std::move(route.refusal);
  } else {
    admission.routed = true;
    admission.route = std::move(route.route);
    Result<Caller> caller = keys_.admit(head.header("Authorization"), admission.route.access);
    if (caller.ok()) {
      admission.caller = std::move(*caller);
      admission.refusal = check_encoding(head);
    } else {
      admission.refusal = error_response(caller.error());
    }
  }
  if (admission.refusal.has_value())
    admission.refusal->headers.insert(admission.refusal->headers.end(),
                                      admission.cors_headers.begin(), admission.cors_headers.end());
  return admission;
}

}  // namespace refrain::serve
