// Network: the threads of the server: a few network threads that run the coroutines of all
// connections, and worker threads for what takes long (JSON, templates, tokens, grammars). Their
// types are Boost.Asio's, which .cpp files of this module include.
#pragma once

#include <cstdint>
#include <memory>

namespace boost::asio {
class io_context;
class thread_pool;
}  // namespace boost::asio

namespace refrain::serve {

class Network {
 public:
  Network();
  ~Network();  // stop(); coroutines that did not end are destroyed

  void start(std::uint32_t thread_count);
  void stop();  // idempotent; no thread of ours runs afterwards

  boost::asio::io_context& io();
  boost::asio::thread_pool& light();  // bodies of usual size
  boost::asio::thread_pool& heavy();  // big bodies and grammars: they do not hold up the others

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace refrain::serve
