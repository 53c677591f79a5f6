// KernelBench: measures each CPU kernel alone, beside what the machine can at most do in the same
// run and beside ggml's product on the same matrix. For `refrain bench kernels`. One thread calls;
// tasks run on a WorkerTeam.
//
//   share_of_peak   the least time that the measured peaks allow (the longer of arithmetic at peak
//                   and weights at read bandwidth) / the time it took
//
// Weights are read from more copies of a matrix than the caches hold, in turn. A product includes
// the quantization of its rows, as ggml's does. No value of a row stands out (kernels/linear.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "base/page_memory.h"
#include "base/result.h"
#include "kernels/attention_bench.h"
#include "kernels/cpu_kernels.h"
#include "model/ggml_product.h"
#include "model/worker_team.h"

namespace refrain::model {

// Of all threads together.
struct MachinePeaks {
  double int8_gop_per_s = 0.0;   // 8-bit dot products of the instruction set, two operations each
  double float_gop_per_s = 0.0;  // FP32 multiply-adds, likewise
  double read_gb_per_s = 0.0;    // memory, over a buffer that the caches do not hold
};

struct KernelFigure {
  std::string kernel;  // "product", "attention decode", "rms_norm"
  std::string type;    // of weights, keys and values, or results: "q4_0", "f16", "f32"
  std::string shape;   // "576x1536": columns x outputs; "9/3x64 at 4096"; "2048": values of a row
  std::uint32_t rows = 0;
  double seconds = 0.0;
  double gop_per_s = 0.0;  // 0: not counted
  double gb_per_s = 0.0;
  std::string bound;  // the peak that bounds it: "int8", "fp32", "read"
  double share_of_peak = 0.0;
  double ggml_seconds = 0.0;  // 0: not compared
  double difference = 0.0;    // from ggml's result: root mean square, relative

  double ratio_to_ggml() const { return ggml_seconds / seconds; }  // above 1: faster than ggml
};

struct KernelBenchOptions {
  std::uint32_t thread_count = 1;
  std::uint32_t repetitions = 5;
  kernels::InstructionSet set = kernels::InstructionSet::kPortable;
};

struct ProductBench {
  kernels::WeightType type = kernels::WeightType::kF32;
  std::uint32_t columns = 0;  // a multiple of block_weights(type)
  std::uint32_t outputs = 0;
  std::uint32_t rows = 1;
};

enum class RowOperation { kQuantizeRow, kRmsNorm, kGlu };

class KernelBench {
 public:
  // Measures the peaks. kUnavailable without threads or memory.
  static Result<std::unique_ptr<KernelBench>> create(const KernelBenchOptions& options);
  ~KernelBench();

  const MachinePeaks& peaks() const { return peaks_; }
  Result<KernelFigure> product(const ProductBench& bench);
  // 1 row: decode behind `depth` tokens; more: a piece of a prefill of `depth` tokens, its middle.
  KernelFigure attention(const std::string& label, const kernels::AttentionShape& shape,
                         kernels::KvFormat format, std::uint32_t depth, std::uint32_t rows);
  KernelFigure row_operation(RowOperation operation, std::uint32_t dim, std::uint32_t rows);

 private:
  class OwnProduct;

  explicit KernelBench(const KernelBenchOptions& options);
  Result<void> measure_peaks();
  double peak(double (*work)(std::uint32_t rounds, float* sink));
  std::uint32_t copies_of(std::size_t bytes) const;
  std::uint32_t products_of(const ProductBench& bench, const kernels::PackedMatrix& matrix,
                            std::uint32_t copies, Tick one) const;
  // Fills in the peak that bounds it and the share.
  void rate(KernelFigure& figure, double operations, double peak_gop_per_s, const char* peak_name,
            double bytes) const;
  kernels::RunThreads run_threads();

  const KernelBenchOptions options_;
  const kernels::CpuKernels& kernels_;
  const std::size_t uncached_bytes_;
  SteadyClock clock_;
  MachinePeaks peaks_;
  std::unique_ptr<WorkerTeam> team_;
  std::unique_ptr<GgmlProduct> ggml_;
  PageMemory packed_, file_;  // copies of a matrix, in our form and in the file's
  AlignedBuffer quantized_;
  ThreadScratch scratch_;
};

}  // namespace refrain::model
