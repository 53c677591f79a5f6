// TenantBoard: how many calls of each tenant wait for their first event, and the tickets that count
// them. Keeps one tenant from filling the queue of all. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.h"
#include "serve/key_ring.h"

namespace refrain::serve {

class TenantBoard {
 public:
  // Move-only; gives the place back when destroyed.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(TenantBoard* board, std::string tenant) : board_(board), tenant_(std::move(tenant)) {}
    Ticket(Ticket&& other) noexcept
        : board_(std::exchange(other.board_, nullptr)), tenant_(std::move(other.tenant_)) {}
    Ticket& operator=(Ticket&& other) noexcept {
      if (this != &other) {
        release();
        board_ = std::exchange(other.board_, nullptr);
        tenant_ = std::move(other.tenant_);
      }
      return *this;
    }
    ~Ticket() { release(); }
    void release() {
      if (board_ != nullptr) std::exchange(board_, nullptr)->leave(tenant_);
    }

   private:
    TenantBoard* board_ = nullptr;
    std::string tenant_;
  };

  // kQueueFull when the caller's tenant already has its share waiting.
  Result<Ticket> enter(const Caller& caller);
  std::uint32_t waiting(const std::string& tenant) const;

 private:
  void leave(const std::string& tenant);

  mutable std::mutex mutex_;
  std::map<std::string, std::uint32_t> waiting_;  // bounded by the number of tenants
};

}  // namespace refrain::serve
