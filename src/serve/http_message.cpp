// See http_message.h.
#include "serve/http_message.h"

#include <array>
#include <cctype>
#include <charconv>
#include <utility>

namespace refrain::serve {
namespace {

// Header values come from our own code, but some echo a client's words (Origin, requested headers):
// a line break would start a new header.
void append_header(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value)
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) out += c;
  out += "\r\n";
}

std::string head(const HttpResponse& response, const WireOptions& options) {
  std::string out = options.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  out += std::to_string(response.status);
  out.append(" ").append(reason_phrase(response.status)).append("\r\n");
  append_header(out, "Server", "refrain");
  if (!response.content_type.empty()) append_header(out, "Content-Type", response.content_type);
  for (const HttpHeader& header : response.headers) append_header(out, header.name, header.value);
  append_header(out, "Connection", options.keep_alive ? "keep-alive" : "close");
  return out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(a[i])) !=
        std::tolower(static_cast<unsigned char>(b[i])))
      return false;
  return true;
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const HttpHeader& entry : headers)
    if (equals_ignoring_case(entry.name, name)) return entry.value;
  return {};
}

bool HttpRequest::has_header(std::string_view name) const {
  for (const HttpHeader& entry : headers)
    if (equals_ignoring_case(entry.name, name)) return true;
  return false;
}

std::string HttpRequest::path() const {
  const std::string_view raw = std::string_view(target).substr(0, target.find_first_of("?#"));
  std::string path;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == '%' && i + 2 < raw.size() && hex_digit(raw[i + 1]) >= 0 &&
        hex_digit(raw[i + 2]) >= 0) {
      path += static_cast<char>(hex_digit(raw[i + 1]) * 16 + hex_digit(raw[i + 2]));
      i += 2;
    } else {
      path += raw[i];
    }
  }
  return path;
}

std::string_view reason_phrase(unsigned status) {
  static constexpr std::array<std::pair<unsigned, std::string_view>, 19> kPhrases = {{
      {200, "OK"},
      {204, "No Content"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {411, "Length Required"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {499, "Client Closed Request"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
  }};
  for (const auto& [code, phrase] : kPhrases)
    if (code == status) return phrase;
  return "Unknown";
}

std::string serialize(const HttpResponse& response, const WireOptions& options) {
  std::string out = head(response, options);
  if (response.status != 204)
    append_header(out, "Content-Length", std::to_string(response.body.size()));
  out += "\r\n";
  if (!options.head_only && response.status != 204) out += response.body;
  return out;
}

std::string serialize_stream_head(const HttpResponse& response, const WireOptions& options) {
  WireOptions wire = options;
  if (wire.http_1_0) wire.keep_alive = false;
  std::string out = head(response, wire);
  if (!wire.http_1_0) append_header(out, "Transfer-Encoding", "chunked");
  out += "\r\n";
  return out;
}

std::string stream_piece(std::string_view bytes, const WireOptions& options) {
  if (bytes.empty()) return {};  // an empty chunk would end the body
  if (options.http_1_0) return std::string(bytes);
  std::array<char, 20> size{};
  const auto end = std::to_chars(size.data(), size.data() + size.size(), bytes.size(), 16).ptr;
  std::string out(size.data(), end);
  out.append("\r\n").append(bytes).append("\r\n");
  return out;
}

std::string stream_end(const WireOptions& options) {
  return options.http_1_0 ? "" : "0\r\n\r\n";
}

}  // namespace refrain::serve
