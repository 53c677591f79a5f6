// BatchOperators: Operators with the life of a batch around them. Records what forward() asks for
// and computes it afterwards. Engine thread.
//
//   begin(plan) -> forward() records -> run(output)     once per batch, memory reused
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/batch.h"
#include "model/batch_plan.h"
#include "model/ops.h"

namespace refrain::model {

class BatchOperators : public Operators {
 public:
  // Starts recording; `plan` stays valid and unchanged until run() has returned.
  virtual void begin(const BatchPlan& plan) = 0;
  // Takes memory for what is recorded, without computing it. kUnavailable.
  virtual Result<void> reserve() = 0;
  // Computes what is recorded and fills the output. kUnavailable without memory, kInternal if a
  // back end fails.
  virtual Result<void> run(BatchOutput& output) = 0;

  virtual std::uint32_t thread_count() const = 0;
  virtual std::uint64_t scratch_bytes() const = 0;
  // See Executor::measure_read_bytes_per_s().
  virtual double measure_read_bytes_per_s() { return 0; }
  // What the bits of the results depend on beside the model and the KV format.
  virtual std::string numerics() const = 0;
};

}  // namespace refrain::model
