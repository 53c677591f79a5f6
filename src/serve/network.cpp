// See network.h.
#include "serve/network.h"

#include <algorithm>
#include <boost/asio.hpp>
#include <thread>
#include <vector>

namespace refrain::serve {

struct Network::Impl {
  // In this order: unfinished work of the workers holds coroutines, which live in `io`.
  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      boost::asio::make_work_guard(io)};
  boost::asio::thread_pool light{2};
  boost::asio::thread_pool heavy{1};
  std::vector<std::thread> threads;
};

Network::Network() : impl_(std::make_unique<Impl>()) {}

Network::~Network() {
  stop();
}

void Network::start(std::uint32_t thread_count) {
  for (std::uint32_t i = 0; i < std::max(1U, thread_count); ++i)
    impl_->threads.emplace_back([this] { impl_->io.run(); });
}

void Network::stop() {
  impl_->io.stop();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
  for (boost::asio::thread_pool* pool : {&impl_->light, &impl_->heavy}) {
    pool->stop();
    pool->join();
  }
}

boost::asio::io_context& Network::io() {
  return impl_->io;
}

boost::asio::thread_pool& Network::light() {
  return impl_->light;
}

boost::asio::thread_pool& Network::heavy() {
  return impl_->heavy;
}

}  // namespace refrain::serve
