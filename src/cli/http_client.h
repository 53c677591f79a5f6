// HttpClient: a small blocking HTTP/1.1 client for measuring servers. One connection, kept open
// between requests; Boost.Beast in http_client.cpp only. One owner, any one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace refrain::cli {

struct Url {
  std::string host;
  std::string port;
  std::string path;  // without a final slash
};

// "http://host[:port][/path]"; kInvalidArgument otherwise (https is not offered).
Result<Url> parse_url(const std::string& text);

struct HttpReply {
  int status = 0;
  std::string body;  // whole; of a stream only what came before the first data was handed out
};

class HttpClient {
 public:
  // `bearer` is sent as Authorization if not empty. `timeout_s` bounds each wait for bytes.
  HttpClient(Url url, std::string bearer, std::uint32_t timeout_s);
  ~HttpClient();

  Result<HttpReply> get(const std::string& path);
  // `on_body` gets the pieces of a successful body as they arrive.
  using OnBody = std::function<Result<void>(std::string_view bytes)>;
  Result<HttpReply> post(const std::string& path, const std::string& json, const OnBody& on_body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::cli
