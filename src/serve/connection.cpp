// See connection.h.
//
//   run:  { head -> door -> body -> page | prepare -> Call::step* }* -> linger
//
// One coroutine on a strand of its own. Timeouts are Beast's: when one passes, the socket is closed
// and the pending operation ends with an error, which ends the connection.
#include "serve/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "base/log.h"
#include "base/str.h"
#include "serve/error_shape.h"
#include "serve/peer_state.h"

namespace refrain::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr milliseconds kPollInterval(250);        // how soon a client's leaving is noticed
constexpr seconds kLingerTime(2);                 // for a client to read our last answer
constexpr std::size_t kLingerBytes = 4U << 20U;   // of a refused body, read and dropped
constexpr std::size_t kWritePiece = 256U << 10U;  // a write time-out counts per piece
constexpr std::size_t kHeavyBodyBytes = 256U << 10U;

// Where a coroutine sleeps until its call has news. On the connection's strand.
struct Wakeup {
  explicit Wakeup(const asio::any_io_executor& executor) : timer(executor) {}
  asio::steady_timer timer;
  bool signaled = false;
};

// A rule for all coroutines here: what has a destructor is a named local before it meets co_await.
// g++ 12 destroys some temporaries in such expressions twice.

// Runs `work` on a worker thread while this coroutine waits; other connections go on.
asio::awaitable<void> run_on(asio::thread_pool& pool, const std::function<void()>& work) {
  const auto body = [&work]() -> asio::awaitable<void> {
    work();
    co_return;
  };
  co_await asio::co_spawn(pool.get_executor(), body, asio::use_awaitable);
}

// Closing while the client still sends would reset the connection and could take our answer away
// from it: so the rest is read and dropped for a moment.
asio::awaitable<void> read_and_drop(beast::tcp_stream& stream) {
  error_code fault;
  stream.socket().shutdown(tcp::socket::shutdown_send, fault);
  stream.expires_after(kLingerTime);
  std::vector<char> dropped(16U << 10U);
  for (std::size_t total = 0; !fault && total < kLingerBytes;) {
    const auto [end, size] = co_await stream.async_read_some(asio::buffer(dropped), kAwait);
    fault = end;
    total += size;
  }
}

class HttpConnection final : public Connection,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(tcp::socket socket, const ConnectionShared& shared)
      : shared_(shared), core_(shared.core), stream_(std::move(socket)) {
    buffer_.max_size(core_.options().max_header_bytes + (64U << 10U));
  }
  ~HttpConnection() override { shared_.on_end(this); }

  void start() override {
    asio::co_spawn(stream_.get_executor(), run(shared_from_this()), asio::detached);
  }
  void close_if_idle() override {
    asio::post(stream_.get_executor(), [self = shared_from_this()] {
      if (self->idle_ || self->lingering_) self->stream_.close();
    });
  }

 private:
  using Parser = http::request_parser<http::string_body>;

  asio::awaitable<void> run(std::shared_ptr<HttpConnection> self);
  asio::awaitable<bool> serve_one(bool first);
  asio::awaitable<bool> wait_for_request(bool first);
  asio::awaitable<bool> read_head(Parser& parser);
  asio::awaitable<bool> read_body(Parser& parser, HttpRequest& request, const Admission& admission);
  asio::awaitable<bool> answer_call(HttpRequest& request, const Admission& admission);
  asio::awaitable<bool> run_call(PreparedCall& prepared, const HttpRequest& request,
                                 const Admission& admission, TenantBoard::Ticket& ticket);
  asio::awaitable<bool> respond(const HttpResponse& response, const HttpRequest& request,
                                bool keep_alive);
  asio::awaitable<bool> refuse(const Error& error, const HttpRequest& request,
                               const Admission& admission, bool keep_alive);
  asio::awaitable<bool> write(const std::string& bytes);

  static HttpRequest head_of(const Parser& parser);
  static WireOptions wire_of(const HttpRequest& request, bool keep_alive) {
    return {.keep_alive = keep_alive,
            .head_only = request.method == "HEAD",
            .http_1_0 = request.http_1_0};
  }

  const ConnectionShared& shared_;
  ServerCore& core_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  bool idle_ = true;  // between two requests
  bool lingering_ = false;
};

asio::awaitable<void> HttpConnection::run(std::shared_ptr<HttpConnection> self) {
  (void)self;  // keeps this object alive as long as its coroutine
  try {
    bool first = true;
    while (co_await serve_one(first)) first = false;
    lingering_ = true;
    if (core_.phase() != ServePhase::kAborting) co_await read_and_drop(stream_);
  } catch (const std::exception& fault) {
    // A fault of a library or of memory costs this connection, nothing else.
    log_error(str_cat("connection ended by an exception: ", to_valid_utf8(fault.what())));
  }
  error_code ignored;
  stream_.socket().close(ignored);
}

asio::awaitable<bool> HttpConnection::serve_one(bool first) {
  if (!co_await wait_for_request(first)) co_return false;
  const Activity::Mark busy(shared_.activity);
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(core_.options().max_header_bytes));
  parser.body_limit(boost::none);  // checked below, so that the refusal can have all its headers
  if (!co_await read_head(parser)) co_return false;

  HttpRequest request = head_of(parser);
  const Admission admission = core_.door().admit(request);
  const bool has_body = !parser.is_done();
  if (admission.refusal.has_value()) {
    if (admission.routed) core_.count_refused(admission.route);
    co_return co_await respond(*admission.refusal, request, request.keep_alive && !has_body);
  }
  if (const auto closed = core_.closed(); closed.has_value() && request.method == "POST") {
    core_.count_refused(admission.route);
    co_return co_await refuse(*closed, request, admission, false);
  }
  if (!co_await read_body(parser, request, admission)) co_return false;
  if (auto page = core_.page(admission)) {
    page->headers.insert(page->headers.end(), admission.cors_headers.begin(),
                         admission.cors_headers.end());
    co_return co_await respond(*page, request, request.keep_alive);
  }
  co_return co_await answer_call(request, admission);
}

// Waits for the first byte, so that an idle connection and a slow head have their own time-outs.
asio::awaitable<bool> HttpConnection::wait_for_request(bool first) {
  const ServerOptions& options = core_.options();
  if (buffer_.size() == 0) {
    if (!first && core_.closed().has_value()) co_return false;
    idle_ = true;
    stream_.expires_after(seconds(first ? options.header_timeout_s : options.idle_timeout_s));
    const auto [fault, size] = co_await stream_.async_read_some(buffer_.prepare(4096), kAwait);
    idle_ = false;
    if (fault) co_return false;
    buffer_.commit(size);
  }
  idle_ = false;
  stream_.expires_after(seconds(options.header_timeout_s));
  co_return true;
}

asio::awaitable<bool> HttpConnection::read_head(Parser& parser) {
  const auto [fault, size] = co_await http::async_read_header(stream_, buffer_, parser, kAwait);
  (void)size;
  if (!fault) co_return true;
  HttpResponse response;
  if (fault == http::error::header_limit || fault == http::error::buffer_overflow) {
    response = error_response_with_status(
        431, Error{Code::kTooLarge, str_cat("the request head is larger than ",
                                            core_.options().max_header_bytes, " bytes")});
  } else if (fault.category() == http::make_error_code(http::error::bad_method).category() &&
             fault != http::error::end_of_stream && fault != http::error::partial_message) {
    response = error_response(
        Error{Code::kInvalidArgument, str_cat("this is not HTTP: ", fault.message())});
  } else {
    co_return false;  // the client left or was too slow
  }
  const HttpRequest nothing_known;
  co_await respond(response, nothing_known, false);
  co_return false;
}

HttpRequest HttpConnection::head_of(const Parser& parser) {
  const auto& head = parser.get();
  HttpRequest request;
  request.method = std::string(head.method_string());
  request.target = std::string(head.target());
  request.http_1_0 = head.version() < 11;
  request.keep_alive = head.keep_alive();
  for (const auto& field : head)
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  return request;
}

asio::awaitable<bool> HttpConnection::read_body(Parser& parser, HttpRequest& request,
                                                const Admission& admission) {
  if (parser.is_done()) co_return true;
  const std::uint64_t limit = core_.options().max_body_bytes;
  const auto length = parser.content_length();
  const Error too_large{Code::kTooLarge, str_cat("the body is larger than ", limit, " bytes"),
                        "start the server with a larger --max-body"};
  if (length.has_value() && *length > limit) {
    core_.count_refused(admission.route);
    co_return co_await refuse(too_large, request, admission, false);
  }
  const ByteBudget::Share share = core_.bodies().take(length.value_or(limit));
  if (!share) {
    core_.count_refused(admission.route);
    const Error no_room{Code::kQueueFull, "too many large bodies are being sent at once"};
    co_return co_await refuse(no_room, request, admission, false);
  }
  if (equals_ignoring_case(request.header("Expect"), "100-continue") && !request.http_1_0) {
    const std::string go_on(kContinue);
    if (!co_await write(go_on)) co_return false;
  }
  parser.body_limit(limit);
  stream_.expires_after(seconds(core_.options().body_timeout_s));
  const auto [fault, size] = co_await http::async_read(stream_, buffer_, parser, kAwait);
  (void)size;
  if (fault == http::error::body_limit) {
    core_.count_refused(admission.route);
    co_return co_await refuse(too_large, request, admission, false);
  }
  if (fault) co_return false;  // cut short, or too slow
  request.body = std::move(parser.get().body());
  co_return true;
}

asio::awaitable<bool> HttpConnection::answer_call(HttpRequest& request,
                                                  const Admission& admission) {
  stream_.expires_never();
  // Taken by reference in the workers below, which are done before this frame goes on.
  std::optional<Result<Prepared>> prepared;
  std::optional<Result<TenantBoard::Ticket>> ticket;
  ticket.emplace(core_.enter(admission.caller));
  std::optional<Error> error;
  if (!ticket->ok()) {
    error = ticket->error();
  } else {
    const bool heavy = request.body.size() > kHeavyBodyBytes;
    const std::function<void()> prepare = [&] {
      prepared.emplace(core_.prepare(admission, request));
    };
    co_await run_on(heavy ? shared_.network.heavy() : shared_.network.light(), prepare);
    std::string().swap(request.body);
    if (!prepared->ok()) {
      error = prepared->error();
    } else if ((*prepared)->call.has_value() && (*prepared)->call->grammar.has_value()) {
      const std::function<void()> compile = [&] {
        const Result<void> compiled = core_.compile_grammar(*(*prepared)->call);
        if (!compiled.ok()) error = compiled.error();
      };
      co_await run_on(shared_.network.heavy(), compile);
    }
  }
  if (error.has_value()) {
    core_.count_refused(admission.route);
    co_return co_await refuse(*error, request, admission, request.keep_alive);
  }
  if ((*prepared)->call.has_value())
    co_return co_await run_call(*(*prepared)->call, request, admission, **ticket);
  HttpResponse response = std::move((*prepared)->response);
  response.headers.insert(response.headers.end(), admission.cors_headers.begin(),
                          admission.cors_headers.end());
  co_return co_await respond(response, request, request.keep_alive);
}

asio::awaitable<bool> HttpConnection::run_call(PreparedCall& prepared, const HttpRequest& request,
                                               const Admission& admission,
                                               TenantBoard::Ticket& ticket) {
  const auto wakeup = std::make_shared<Wakeup>(stream_.get_executor());
  const auto notify = [executor = stream_.get_executor(), weak = std::weak_ptr(wakeup)] {
    asio::post(executor, [weak] {
      if (const auto waiting = weak.lock()) {
        waiting->signaled = true;
        waiting->timer.cancel();
      }
    });
  };
  Call call(core_.environment(), std::move(prepared), wire_of(request, request.keep_alive),
            admission.cors_headers, std::move(ticket), notify);
  for (;;) {
    Call::Step step = call.step(peer_state(stream_.socket().native_handle()));
    if (!step.bytes.empty() && !co_await write(step.bytes)) co_return false;
    if (step.done) {
      core_.count_response(step.status);
      co_return step.keep_alive;
    }
    if (!wakeup->signaled) {
      wakeup->timer.expires_after(kPollInterval);
      co_await wakeup->timer.async_wait(kAwait);
    }
    wakeup->signaled = false;
  }
}

asio::awaitable<bool> HttpConnection::respond(const HttpResponse& response,
                                              const HttpRequest& request, bool keep_alive) {
  core_.count_response(response.status);
  const std::string bytes = serialize(response, wire_of(request, keep_alive));
  const bool written = co_await write(bytes);
  co_return written&& keep_alive;
}

asio::awaitable<bool> HttpConnection::refuse(const Error& error, const HttpRequest& request,
                                             const Admission& admission, bool keep_alive) {
  HttpResponse response = error_response(error, core_.retry_after_s());
  response.headers.insert(response.headers.end(), admission.cors_headers.begin(),
                          admission.cors_headers.end());
  co_return co_await respond(response, request, keep_alive);
}

asio::awaitable<bool> HttpConnection::write(const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    stream_.expires_after(seconds(core_.options().write_timeout_s));
    const std::size_t count = std::min(kWritePiece, bytes.size() - sent);
    const auto [fault, size] =
        co_await asio::async_write(stream_, asio::buffer(bytes.data() + sent, count), kAwait);
    if (fault) co_return false;
    sent += size;
  }
  stream_.expires_never();
  co_return true;
}

// One connection too many gets a proper answer, whatever it asked. `mark` ends with it.
asio::awaitable<void> tell_overload(tcp::socket socket, ServerCore& core,
                                    std::shared_ptr<void> mark) {
  (void)mark;
  beast::tcp_stream stream(std::move(socket));
  const HttpResponse response = error_response(
      Error{Code::kUnavailable, "too many connections", "try again, or raise --max-connections"},
      core.retry_after_s());
  core.count_response(response.status);
  const std::string bytes = serialize(response, {.keep_alive = false});
  stream.expires_after(kLingerTime);
  const auto [fault, size] = co_await asio::async_write(stream, asio::buffer(bytes), kAwait);
  (void)size;
  if (!fault) co_await read_and_drop(stream);
}

// On a strand of its own, so that all handlers of the connection run one after the other.
std::optional<tcp::socket> take_socket(int native_socket, Network& network) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(native_socket, reinterpret_cast<sockaddr*>(&address), &length);
  tcp::socket socket(asio::make_strand(network.io()));
  error_code fault;
  socket.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), native_socket, fault);
  if (!fault) return socket;
  log_warn(str_cat("cannot take a connection over: ", fault.message()));
  ::close(native_socket);
  return std::nullopt;
}

}  // namespace

std::shared_ptr<Connection> Connection::create(int native_socket, const ConnectionShared& shared) {
  std::optional<tcp::socket> socket = take_socket(native_socket, shared.network);
  if (!socket.has_value()) return nullptr;
  return std::make_shared<HttpConnection>(std::move(*socket), shared);
}

void Connection::refuse(int native_socket, const ConnectionShared& shared,
                        std::shared_ptr<void> mark) {
  std::optional<tcp::socket> socket = take_socket(native_socket, shared.network);
  if (!socket.has_value()) return;
  const auto executor = socket->get_executor();
  asio::co_spawn(executor, tell_overload(std::move(*socket), shared.core, std::move(mark)),
                 asio::detached);
}

}  // namespace refrain::serve
