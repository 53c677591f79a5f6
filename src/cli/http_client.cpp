// Beast, blocking calls with socket timeouts; its error codes end here.
#include "cli/http_client.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <optional>

#include "base/str.h"

namespace refrain::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using Fault = boost::system::error_code;

constexpr std::size_t kMaxReplyBytes = std::size_t{64} << 20U;

}  // namespace

struct HttpClient::Impl {
  Url url;
  std::string bearer;
  std::uint32_t timeout_s;
  asio::io_context context;
  std::optional<tcp::socket> socket;
  beast::flat_buffer buffer;

  Error fault_error(std::string_view what, const Fault& fault) const {
    return Error{Code::kUnavailable,
                 str_cat(what, " ", url.host, ":", url.port, ": ", fault.message()),
                 "is the server running there? --url names it"};
  }

  Result<void> connect() {
    if (socket.has_value()) return {};
    Fault fault;
    tcp::resolver resolver(context);
    const auto addresses = resolver.resolve(url.host, url.port, fault);
    if (fault) return fault_error("cannot resolve", fault);
    tcp::socket made(context);
    asio::connect(made, addresses, fault);
    if (fault) return fault_error("cannot connect to", fault);
    Fault ignored;
    made.set_option(tcp::no_delay(true), ignored);
    const timeval limit{.tv_sec = static_cast<time_t>(timeout_s), .tv_usec = 0};
    (void)::setsockopt(made.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)::setsockopt(made.native_handle(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    socket.emplace(std::move(made));
    buffer.clear();
    return {};
  }

  void disconnect() { socket.reset(); }

  http::request<http::string_body> make_request(http::verb verb, const std::string& path,
                                                const std::string& body) const {
    http::request<http::string_body> request(verb, url.path + path, 11);
    request.set(http::field::host, str_cat(url.host, ":", url.port));
    request.set(http::field::user_agent, "refrain-bench");
    if (!bearer.empty()) request.set(http::field::authorization, str_cat("Bearer ", bearer));
    if (verb == http::verb::post) request.set(http::field::content_type, "application/json");
    request.body() = body;
    request.prepare_payload();
    return request;
  }

  // Reads body pieces until the end; errors are collected whole, successes handed on.
  Result<HttpReply> read_reply(const OnBody& on_body) {
    Fault fault;
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    http::read_header(*socket, buffer, parser, fault);
    if (fault) return fault_error("no answer from", fault);
    HttpReply reply{.status = static_cast<int>(parser.get().result_int()), .body = {}};
    std::array<char, 16384> piece{};
    while (!parser.is_done()) {
      parser.get().body().data = piece.data();
      parser.get().body().size = piece.size();
      // Not read(), which waits until the piece is full: what came is handed on at once.
      http::read_some(*socket, buffer, parser, fault);
      if (fault == http::error::need_buffer) fault = {};
      if (fault) return fault_error("the answer broke off from", fault);
      const std::string_view bytes(piece.data(), piece.size() - parser.get().body().size);
      if (on_body && reply.status == 200) {
        RETURN_IF_ERROR(on_body(bytes));
        continue;
      }
      reply.body += bytes;
      if (reply.body.size() > kMaxReplyBytes)
        return Error{Code::kTooLarge, "the server's answer is over 64 MiB"};
    }
    if (!parser.get().keep_alive()) disconnect();
    return reply;
  }

  Result<HttpReply> exchange(const http::request<http::string_body>& request,
                             const OnBody& on_body) {
    const bool was_open = socket.has_value();
    RETURN_IF_ERROR(connect());
    Fault fault;
    http::write(*socket, request, fault);
    if (!fault && was_open) {
      // A kept connection may have been closed meanwhile; then the first read shows it.
      std::array<char, 1> peeked{};
      const ssize_t seen = ::recv(socket->native_handle(), peeked.data(), 1, MSG_PEEK);
      if (seen == 0 || (seen < 0 && errno == ECONNRESET)) fault = asio::error::eof;
    }
    if (fault && was_open) {
      disconnect();
      return exchange(request, on_body);  // once: the new connection was not open before
    }
    if (fault) {
      disconnect();
      return fault_error("cannot send to", fault);
    }
    Result<HttpReply> reply = read_reply(on_body);
    if (!reply.ok()) disconnect();
    return reply;
  }
};

Result<Url> parse_url(const std::string& text) {
  constexpr std::string_view kScheme = "http://";
  const auto bad = [&](std::string_view why) {
    return Error{Code::kInvalidArgument, str_cat("`", to_valid_utf8(text), "` ", why),
                 "write --url http://HOST:PORT", "--url"};
  };
  if (text.starts_with("https://")) return bad("needs TLS, which is not offered");
  if (!text.starts_with(kScheme)) return bad("is no HTTP address");
  std::string_view rest = std::string_view(text).substr(kScheme.size());
  Url url;
  const std::size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    url.path = rest.substr(slash);
    while (url.path.ends_with('/')) url.path.pop_back();
    rest = rest.substr(0, slash);
  }
  // Clients' base URLs often end in /v1; our paths bring it themselves.
  if (url.path.ends_with("/v1")) url.path.resize(url.path.size() - 3);
  const std::size_t colon = rest.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos;
  url.host = has_port ? rest.substr(0, colon) : rest;
  url.port = has_port ? rest.substr(colon + 1) : "80";
  if (url.host.starts_with('[') && url.host.ends_with(']'))
    url.host = url.host.substr(1, url.host.size() - 2);
  const bool digits =
      !url.port.empty() && url.port.find_first_not_of("0123456789") == std::string::npos;
  if (url.host.empty() || !digits) return bad("names no host and port");
  return url;
}

HttpClient::HttpClient(Url url, std::string bearer, std::uint32_t timeout_s)
    : impl_(std::make_unique<Impl>()) {
  impl_->url = std::move(url);
  impl_->bearer = std::move(bearer);
  impl_->timeout_s = timeout_s;
}
HttpClient::~HttpClient() = default;

Result<HttpReply> HttpClient::get(const std::string& path) {
  return impl_->exchange(impl_->make_request(http::verb::get, path, ""), {});
}

Result<HttpReply> HttpClient::post(const std::string& path, const std::string& json,
                                   const OnBody& on_body) {
  return impl_->exchange(impl_->make_request(http::verb::post, path, json), on_body);
}

}  // namespace refrain::cli
