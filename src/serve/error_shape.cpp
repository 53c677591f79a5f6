// See error_shape.h.
#include "serve/error_shape.h"

#include <algorithm>
#include <cmath>

#include "serve/json_writer.h"

namespace refrain::serve {

ErrorShape error_shape(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return {400, "invalid_request_error", "invalid_value"};
    case Code::kContextLength:
      return {400, "invalid_request_error", "context_length_exceeded"};
    case Code::kUnauthorized:
      return {401, "authentication_error", "invalid_api_key"};
    case Code::kForbidden:
      return {403, "permission_error", "forbidden"};
    case Code::kNotFound:
      return {404, "invalid_request_error", "not_found"};
    case Code::kTooLarge:
      return {413, "invalid_request_error", "too_large"};
    case Code::kUnsupported:
      return {400, "invalid_request_error", "unsupported"};
    case Code::kQueueFull:
      return {429, "rate_limit_error", "rate_limit_exceeded"};
    case Code::kUnavailable:
      return {503, "server_error", "unavailable"};
    case Code::kDeadline:
      return {504, "server_error", "deadline_exceeded"};
    case Code::kCancelled:
      return {499, "invalid_request_error", "cancelled"};
    case Code::kDataLoss:
      return {500, "server_error", "data_loss"};
    case Code::kInternal:
      return {500, "server_error", "internal_error"};
  }
  return {500, "server_error", "internal_error"};
}

std::string error_body(const Error& error) {
  const ErrorShape shape = error_shape(error.code);
  JsonWriter out;
  out.begin_object().key("error").begin_object();
  out.field("message", error.message).field("type", shape.type);
  if (error.field.empty()) {
    out.key("param").null();
  } else {
    out.field("param", error.field);
  }
  const bool unknown_model = error.code == Code::kNotFound && error.field == "model";
  out.field("code", unknown_model ? std::string_view("model_not_found") : shape.code);
  if (!error.hint.empty()) out.field("hint", error.hint);
  out.end_object().end_object();
  return out.take();
}

HttpResponse error_response(const Error& error, double retry_after_s) {
  HttpResponse response = error_response_with_status(error_shape(error.code).status, error);
  if (response.status == 429 || response.status == 503) {
    const double seconds = std::isfinite(retry_after_s) ? std::clamp(retry_after_s, 1.0, 120.0) : 1;
    response.headers.push_back(
        {"Retry-After", std::to_string(static_cast<int>(std::ceil(seconds)))});
  }
  if (response.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

HttpResponse error_response_with_status(unsigned status, const Error& error) {
  HttpResponse response;
  response.status = status;
  response.body = error_body(error);
  return response;
}

}  // namespace refrain::serve
