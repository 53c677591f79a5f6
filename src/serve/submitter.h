// Submitter: the part of the engine that calls and summaries need; tests put a scripted one here.
// Any thread.
#pragma once

#include <memory>

#include "engine/engine.h"

namespace refrain::serve {

class Submitter {
 public:
  virtual ~Submitter() = default;
  virtual Result<RequestId> submit(engine::GenerateRequest request,
                                   std::shared_ptr<engine::OutputStream> stream,
                                   engine::WhenFull when_full) = 0;
  virtual void cancel(RequestId id) = 0;
  virtual double retry_after_s() const = 0;
};

class EngineSubmitter final : public Submitter {
 public:
  explicit EngineSubmitter(engine::Engine& engine) : engine_(engine) {}
  Result<RequestId> submit(engine::GenerateRequest request,
                           std::shared_ptr<engine::OutputStream> stream,
                           engine::WhenFull when_full) override {
    return engine_.submit(std::move(request), std::move(stream), when_full);
  }
  void cancel(RequestId id) override { engine_.cancel(id); }
  double retry_after_s() const override { return engine_.estimated_wait_s(); }

 private:
  engine::Engine& engine_;
};

}  // namespace refrain::serve
