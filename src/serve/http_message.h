// One HTTP request and its answer as plain data, and the bytes an answer becomes. Knows no sockets:
// connections.cpp reads requests with Beast and writes what serialize() gives. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace refrain::serve {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method;  // "POST"
  std::string target;  // as sent: "/v1/models?x=1"
  std::vector<HttpHeader> headers;
  std::string body;
  bool http_1_0 = false;  // no chunked answers, no interim responses
  bool keep_alive = true;

  // First header of that name in any case; "" if there is none.
  std::string_view header(std::string_view name) const;
  bool has_header(std::string_view name) const;
  // Target without query, percent-decoded: "/v1/models".
  std::string path() const;
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers = {};
  std::string body = {};
};

struct WireOptions {
  bool keep_alive = true;
  bool head_only = false;  // answer to HEAD: headers of the body, but no body
  bool http_1_0 = false;
};

std::string_view reason_phrase(unsigned status);
bool equals_ignoring_case(std::string_view a, std::string_view b);

// The whole answer.
std::string serialize(const HttpResponse& response, const WireOptions& options);
// Head of an answer whose body follows in pieces (SSE). Chunked with HTTP/1.1; with HTTP/1.0 the
// end of the connection ends it.
std::string serialize_stream_head(const HttpResponse& response, const WireOptions& options);
// One piece of such a body, and its end.
std::string stream_piece(std::string_view bytes, const WireOptions& options);
std::string stream_end(const WireOptions& options);

// Interim answer that any client has to skip (RFC 9110, 15.2).
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace refrain::serve
