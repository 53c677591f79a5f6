// A whole Server on a free port with a real engine over a scripted executor, driven through plain
// sockets: what clients see on the wire.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <semaphore>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/json.h"
#include "serve/server.h"
#include "support/engine_fixture.h"

namespace refrain::serve {
namespace {

using test::EngineBench;

// One client connection; every wait is bounded.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { close_now(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void send_bytes(std::string_view bytes) {
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void send_request(std::string_view method, std::string_view path, std::string_view body,
                    std::string_view headers = "") {
    send_bytes(str_cat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers,
                       "Content-Length: ", body.size(), "\r\n\r\n", body));
  }
  void close_sending() { shutdown(socket_, SHUT_WR); }
  void close_now() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

  // Reads until `text` has come; what was read so far. "" at the end of the connection.
  std::string read_until(std::string_view text) {
    while (received_.find(text) == std::string::npos)
      if (!read_more()) return {};
    const std::size_t end = received_.find(text) + text.size();
    std::string part = received_.substr(0, end);
    received_.erase(0, end);
    return part;
  }
  std::string read_all() {
    while (read_more()) continue;
    return std::exchange(received_, {});
  }
  // One answer with a Content-Length: head and body.
  std::pair<std::string, std::string> read_answer() {
    const std::string head = read_until("\r\n\r\n");
    const std::size_t at = head.find("Content-Length: ");
    if (at == std::string::npos) return {head, ""};
    const std::size_t length = std::stoul(head.substr(at + 16));
    while (received_.size() < length)
      if (!read_more()) break;
    std::string body = received_.substr(0, length);
    received_.erase(0, length);
    return {head, body};
  }

 private:
  bool read_more() {
    char buffer[16384];
    const ssize_t count = recv(socket_, buffer, sizeof buffer, 0);
    if (count > 0) received_.append(buffer, static_cast<std::size_t>(count));
    return count > 0;
  }

  int socket_;
  bool connected_ = false;
  std::string received_;
};

class NetworkTest : public testing::Test {
 protected:
  void start(ServerOptions options = {}, test::BenchOptions bench_options = {}) {
    bench_options.engine.max_context = 2048;
    bench_ = std::make_unique<EngineBench>(bench_options);
    options.port = 0;
    ServerParts parts;
    parts.engine = bench_->engine.get();
    parts.tokenizer = &bench_->tokenizer;
    parts.metrics = &bench_->metrics;
    parts.clock = &steady_;
    parts.model_name = "hash";
    parts.exactness = "bitwise";
    parts.max_context = 2048;
    parts.embedding_dim = 4;
    server_ = std::make_unique<Server>(parts, options);
    bench_->engine->start();
    ASSERT_TRUE(server_->start().ok());
  }
  void TearDown() override {
    open_gate();
    server_.reset();
    if (bench_) bench_->expect_clean();
  }

  std::uint16_t port() const { return server_->port(); }
  // Waits for the engine to be idle; false after some seconds.
  bool becomes_idle() const {
    for (int i = 0; i < 500; ++i) {
      const engine::EngineSnapshot now = bench_->engine->snapshot();
      if (now.running == 0 && now.waiting == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  // Each step of the engine waits for a release, until open_gate().
  void gate_steps() {
    bench_->executor.on_run = [this](const model::Batch&) {
      entered_ = true;
      if (!gate_open_) gate_.acquire();
    };
  }
  void wait_for_step() const {
    while (!entered_) std::this_thread::yield();
  }
  void open_gate() {
    gate_open_ = true;
    gate_.release();
  }

  SteadyClock steady_;
  std::counting_semaphore<> gate_{0};
  std::atomic<bool> gate_open_{false};
  std::atomic<bool> entered_{false};
  std::unique_ptr<EngineBench> bench_;
  std::unique_ptr<Server> server_;
};

constexpr const char* kShort = R"({"prompt":"hello","max_tokens":5,"ignore_eos":true,"seed":1})";
constexpr const char* kLong =
    R"({"prompt":"hello","max_tokens":2000,"ignore_eos":true,"seed":1,"stream":true})";
constexpr const char* kLongWhole =
    R"({"prompt":"hello","max_tokens":2000,"ignore_eos":true,"seed":1})";

TEST_F(NetworkTest, one_connection_serves_request_after_request) {
  start();
  Client client(port());
  for (int i = 0; i < 3; ++i) {
    client.send_request("POST", "/v1/completions", kShort);
    const auto [head, body] = client.read_answer();
    EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK")) << head << body;
    EXPECT_TRUE(parse_json(body).ok());
  }
  // Two requests in one piece are answered one after the other.
  const std::string get = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  client.send_bytes(get + get);
  EXPECT_TRUE(client.read_answer().first.starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(client.read_answer().first.starts_with("HTTP/1.1 200"));
}

TEST_F(NetworkTest, stream_ends_with_done_and_keeps_the_connection) {
  start();
  Client client(port());
  client.send_request("POST", "/v1/completions",
                      R"({"prompt":"hello","max_tokens":5,"ignore_eos":true,"stream":true})");
  const std::string stream = client.read_until("\r\n0\r\n\r\n");
  EXPECT_NE(stream.find("Content-Type: text/event-stream"), std::string::npos);
  EXPECT_NE(stream.find("data: [DONE]\n\n"), std::string::npos);
  client.send_request("GET", "/v1/models", "");
  EXPECT_TRUE(client.read_answer().first.starts_with("HTTP/1.1 200"));
}

TEST_F(NetworkTest, bad_requests_get_json_errors_and_harm_nobody) {  // O-31
  start();
  for (const std::string& body :
       {std::string("\xFF\xFE"), std::string("{\"prompt\":\"\xFF\xFE\"}"), std::string(),
        std::string("{\"prompt\":"), std::string(R"({"prompt":"\ud800"})"),
        std::string("{\"model\":\"\xC4\xE3\",\"prompt\":\"a\"}"), std::string(5000, '[')}) {
    Client client(port());
    client.send_request("POST", "/v1/completions", body, "Content-Type: text/plain\r\n");
    const auto [head, answer] = client.read_answer();
    EXPECT_TRUE(head.starts_with("HTTP/1.1 4")) << head;
    EXPECT_TRUE(parse_json(answer).ok()) << answer;
  }
  Client noise(port());
  noise.send_bytes("\x16\x03\x01 this is no HTTP\r\n\r\n");
  EXPECT_TRUE(noise.read_all().starts_with("HTTP/1.1 400"));
  Client client(port());
  client.send_request("POST", "/v1/completions", kShort);
  EXPECT_TRUE(client.read_answer().first.starts_with("HTTP/1.1 200"));
}

TEST_F(NetworkTest, head_and_body_have_limits) {
  ServerOptions options;
  options.max_body_bytes = 1000;
  options.max_header_bytes = 2048;
  start(options);
  Client big(port());
  big.send_request("POST", "/v1/completions", std::string(1001, ' '));
  EXPECT_TRUE(big.read_all().starts_with("HTTP/1.1 413"));
  Client chunked(port());
  chunked.send_bytes(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "400\r\n" +
      std::string(1024, ' ') + "\r\n");
  EXPECT_TRUE(chunked.read_all().starts_with("HTTP/1.1 413"));
  Client wide(port());
  wide.send_bytes("GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(4000, 'x'));
  EXPECT_TRUE(wide.read_all().starts_with("HTTP/1.1 431"));
}

TEST_F(NetworkTest, asks_for_the_body_of_a_client_that_expects_to_be_asked) {
  start();
  Client client(port());
  client.send_bytes(str_cat(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n",
      "Expect: 100-continue\r\nContent-Length: ", std::string_view(kShort).size(), "\r\n\r\n"));
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send_bytes(kShort);
  EXPECT_TRUE(client.read_answer().first.starts_with("HTTP/1.1 200"));
}

TEST_F(NetworkTest, slow_heads_are_cut) {  // O-39
  ServerOptions options;
  options.header_timeout_s = 1;
  start(options);
  Client slow(port());
  slow.send_bytes("GET /health HT");
  EXPECT_EQ(slow.read_all(), "");  // closed by the server; the client's own limit is far longer
}

TEST_F(NetworkTest, client_that_leaves_a_stream_stops_the_work) {  // O-16, O-21 (a)
  start();
  {
    Client client(port());
    client.send_request("POST", "/v1/completions", kLong);
    EXPECT_NE(client.read_until("data: "), "");
  }
  EXPECT_TRUE(becomes_idle());
}

TEST_F(NetworkTest, client_that_leaves_a_waiting_answer_stops_the_work) {  // O-21 (b), (c), (d)
  start();
  gate_steps();
  {
    Client client(port());
    client.send_request("POST", "/v1/completions", kLongWhole);
    wait_for_step();
  }
  // The probe after the client has gone takes half a second; only then may the engine go on, so
  // that the request cannot simply run to its end.
  while (bench_->metrics.value(metrics::Metric::kConnections) > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  open_gate();
  EXPECT_TRUE(becomes_idle());
  EXPECT_LT(bench_->engine->snapshot().generated_tokens, 10U);
}

TEST_F(NetworkTest, client_that_closes_only_its_sending_side_gets_its_answer) {  // O-21 (e)
  start();
  gate_steps();
  Client client(port());
  client.send_request("POST", "/v1/completions", kShort, "Connection: close\r\n");
  client.close_sending();
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  open_gate();
  EXPECT_TRUE(client.read_all().starts_with("HTTP/1.1 200 OK"));
}

TEST_F(NetworkTest, health_and_metrics_never_wait_for_the_engine) {  // O-41
  start();
  gate_steps();
  Client busy(port());
  busy.send_request("POST", "/v1/completions", kShort);
  for (const char* path : {"/health", "/metrics", "/v1/models"}) {
    Client client(port());
    client.send_request("GET", path, "");
    EXPECT_TRUE(client.read_answer().first.starts_with("HTTP/1.1 200")) << path;
  }
  open_gate();
  EXPECT_TRUE(busy.read_answer().first.starts_with("HTTP/1.1 200"));
}

TEST_F(NetworkTest, full_queue_answers_429_with_retry_after) {  // O-39
  test::BenchOptions bench;
  bench.engine.max_waiting = 2;
  bench.engine.max_running = 1;
  start({}, bench);
  gate_steps();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<Client>(port()));
    clients.back()->send_request("POST", "/v1/completions", kShort);
  }
  while (bench_->metrics.value(metrics::Metric::kHttpResponses, "4xx") < 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  open_gate();
  int refused = 0;
  for (const auto& client : clients) {
    const auto [head, body] = client->read_answer();
    const bool full = head.starts_with("HTTP/1.1 429");
    EXPECT_TRUE(full || head.starts_with("HTTP/1.1 200")) << head;
    EXPECT_EQ(full, head.find("Retry-After: ") != std::string::npos);
    EXPECT_TRUE(parse_json(body).ok());
    refused += full ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(NetworkTest, too_many_connections_are_told_so) {  // O-39
  ServerOptions options;
  options.max_connections = 2;
  start(options);
  Client one(port()), two(port());
  one.send_request("GET", "/health", "");
  two.send_request("GET", "/health", "");
  EXPECT_TRUE(one.read_answer().first.starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(two.read_answer().first.starts_with("HTTP/1.1 200"));
  Client three(port());
  three.send_request("GET", "/health", "");
  EXPECT_TRUE(three.read_all().starts_with("HTTP/1.1 503"));
}

TEST_F(NetworkTest, draining_finishes_streams_and_refuses_new_work) {  // O-40
  start();
  gate_steps();
  Client idle(port());
  idle.send_request("GET", "/health", "");
  idle.read_answer();
  Client stream(port());
  stream.send_request("POST", "/v1/completions",
                      R"({"prompt":"hello","max_tokens":5,"ignore_eos":true,"stream":true})");
  wait_for_step();
  std::thread drainer([this] { server_->drain(); });
  EXPECT_EQ(idle.read_all(), "");  // closed, since it was idle
  Client late(port());
  late.send_request("POST", "/v1/completions", kShort);
  EXPECT_TRUE(late.read_all().starts_with("HTTP/1.1 503"));
  open_gate();
  EXPECT_NE(stream.read_until("data: [DONE]"), "");
  drainer.join();
}

TEST_F(NetworkTest, grace_time_ends_streams_with_an_error_event) {  // O-40
  ServerOptions options;
  options.drain_grace_s = 0;
  start(options);
  Client stream(port());
  stream.send_request("POST", "/v1/completions", kLong);
  EXPECT_NE(stream.read_until("data: "), "");
  server_->drain();
  const std::string rest = stream.read_all();
  EXPECT_TRUE(rest.find("data: {\"error\":") != std::string::npos ||
              rest.find("[DONE]") != std::string::npos);
  const std::uint16_t used = port();
  server_->stop();
  server_->stop();
  EXPECT_FALSE(Client(used).connected());  // the port is free at once
}

TEST_F(NetworkTest, taken_port_is_a_clear_error) {
  start();
  ServerOptions options;
  options.port = port();
  ServerParts parts;
  parts.engine = bench_->engine.get();
  parts.tokenizer = &bench_->tokenizer;
  parts.metrics = &bench_->metrics;
  parts.clock = &steady_;
  Server second(parts, options);
  const Result<void> started = second.start();
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, Code::kUnavailable);
  EXPECT_EQ(started.error().field, "--port");
}

TEST_F(NetworkTest, reasons_of_all_requests_add_up) {  // O-44
  start();
  for (const char* body : {kShort, R"({"prompt":"a","temperature":-1})", "{", kShort}) {
    Client client(port());
    client.send_request("POST", "/v1/completions", body);
    client.read_answer();
  }
  Client elsewhere(port());  // no request for the engine
  elsewhere.send_request("POST", "/v1/nothing", "{}");
  EXPECT_TRUE(elsewhere.read_answer().first.starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(becomes_idle());
  const auto& metrics = bench_->metrics;
  EXPECT_EQ(metrics.value(metrics::Metric::kRequestsReceived), 4);
  EXPECT_EQ(metrics.value(metrics::Metric::kRequestsFinished, "rejected"), 2);
  EXPECT_EQ(metrics.value(metrics::Metric::kRequestsFinished, "length"), 2);
}

}  // namespace
}  // namespace refrain::serve
