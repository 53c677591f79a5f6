// The OpenAI error object and the one table from Code to HTTP status, error type and error code.
// Plain functions, any thread.
//
//   {"error": {"message": ..., "type": ..., "param": field or null, "code": ..., "hint": ... or
//   absent}}
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/http_message.h"

namespace refrain::serve {

struct ErrorShape {
  unsigned status;
  std::string_view type;
  std::string_view code;
};

ErrorShape error_shape(Code code);

std::string error_body(const Error& error);
// `retry_after_s` is sent with 429 and 503; at least one second.
HttpResponse error_response(const Error& error, double retry_after_s = 1.0);
// The same object under a status that no Code stands for (405, 408, 411, 415, 431 ...).
HttpResponse error_response_with_status(unsigned status, const Error& error);

}  // namespace refrain::serve
