// Measurements of the CPU kernels. See kernel_bench.h.
#include "model/kernel_bench.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/rng.h"
#include "base/statistics.h"
#include "base/str.h"
#include "model/step_cut.h"
#include "model/weight_types.h"

namespace refrain::model {
namespace {

constexpr std::size_t kSmallestRead = std::size_t{256} << 20U;
constexpr std::size_t kSmallestCache = std::size_t{32} << 20U;  // if the system does not say
constexpr std::uint32_t kCopiesMax = 4096;
constexpr int kPeakRounds = 12;
constexpr Tick kPeakTicks = 5 * kMillisecond;    // of one of them, at least
constexpr Tick kPassTicks = 400 * kMillisecond;  // copies are all read if that takes less
constexpr Tick kShortTicks = 20 * kMillisecond;  // of one repetition, at least
// Above what uniform values reach (1.73): none stands out.
constexpr float kExcessRatio = 4.0F;

// A buffer that no cache holds, within an eighth of the machine's memory.
std::size_t uncached_bytes() {
  const auto cache = static_cast<std::size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  const auto memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::max(kSmallestRead, std::min(4 * std::max(cache, kSmallestCache), memory / 8));
}

std::vector<float> random_values(std::size_t count) {
  Rng rng(2);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.uniform() * 2.0 - 1.0);
  return values;
}

double relative_difference(const std::vector<float>& ours, const std::vector<float>& theirs) {
  CHECK(ours.size() == theirs.size(), "results of different shapes");
  double difference = 0.0, size = 0.0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double d = double{ours[i]} - theirs[i];
    difference += d * d;
    size += double{theirs[i]} * theirs[i];
  }
  return std::sqrt(difference / size);
}

// Pages stay, so that no measurement pays for getting them.
Result<void> grow(PageMemory& memory, std::size_t bytes) {
  if (bytes <= memory.bytes()) return {};
  memory = PageMemory();
  ASSIGN_OR_RETURN(memory, PageMemory::map(bytes, "the matrices", "choose smaller --shapes"));
  return {};
}

// Calls function(row) for each row, on the team's threads.
template <typename Function>
void for_rows(WorkerTeam& team, std::uint32_t rows, std::uint32_t dim, const Function& function) {
  const std::uint32_t piece = row_piece(rows, dim, team.thread_count());
  auto task = [&](std::uint32_t index, std::uint32_t) {
    const std::uint32_t last = std::min(rows, (index + 1) * piece);
    for (std::uint32_t row = index * piece; row < last; ++row) function(row);
  };
  team.run(pieces_of(rows, piece), task);
}

}  // namespace

// Our product with copies of a matrix, cut into tasks as the executor does.
class KernelBench::OwnProduct {
 public:
  OwnProduct(const kernels::CpuKernels& kernels, WorkerTeam& team, const ThreadScratch& scratch,
             const AlignedBuffer& quantized, const kernels::PackedMatrix& matrix,
             const std::vector<float>& x, std::uint32_t rows)
      : kernels_(kernels), team_(team), scratch_(scratch), matrix_(matrix), x_(x), rows_(rows) {
    output_.resize(std::size_t{rows} * matrix.rows);
    input_.rows = x.data();
    input_.stride = matrix.columns;
    if (!kernels::is_quantized(matrix.type)) return;
    input_.quantized = kernels::QuantizedRows::at(quantized.data(), rows, matrix.columns);
  }

  void multiply(std::size_t copy) {
    if (kernels::is_quantized(matrix_.type)) {
      for_rows(team_, rows_, matrix_.columns, [&](std::uint32_t row) {
        kernels_.quantize_row(x_.data() + std::size_t{matrix_.columns} * row, matrix_.columns,
                              kExcessRatio, input_.quantized, row);
      });
    }
    kernels::PackedMatrix matrix = matrix_;
    matrix.data += AlignedBuffer::rounded_up(matrix.bytes()) * copy;
    const std::uint32_t panels = matrix.panel_count();
    const std::uint32_t piece = panel_piece(panels, team_.thread_count());
    auto task = [&](std::uint32_t index, std::uint32_t thread) {
      const std::uint32_t first = index * piece, last = std::min(panels, first + piece);
      kernels_.linear(matrix, input_, {0, rows_, first, last}, output_.data(), matrix.rows,
                      scratch_.of(thread));
    };
    team_.run(pieces_of(panels, piece), task);
  }

  const std::vector<float>& output() const { return output_; }

 private:
  const kernels::CpuKernels& kernels_;
  WorkerTeam& team_;
  const ThreadScratch& scratch_;
  const kernels::PackedMatrix matrix_;  // the first copy
  const std::vector<float>& x_;
  const std::uint32_t rows_;
  kernels::LinearInput input_;
  std::vector<float> output_;
};

KernelBench::KernelBench(const KernelBenchOptions& options)
    : options_(options),
      kernels_(kernels::cpu_kernels(options.set)),
      uncached_bytes_(uncached_bytes()) {}
KernelBench::~KernelBench() = default;

Result<std::unique_ptr<KernelBench>> KernelBench::create(const KernelBenchOptions& options) {
  CHECK(options.repetitions > 0, "nothing to measure");
  std::unique_ptr<KernelBench> made(new KernelBench(options));
  ASSIGN_OR_RETURN(made->team_, WorkerTeam::create(options.thread_count));
  ASSIGN_OR_RETURN(made->ggml_, GgmlProduct::create(options.thread_count));
  if (!made->scratch_.reserve(kernels::linear_scratch_bytes(), options.thread_count)) {
    return Error{Code::kUnavailable, "not enough memory for the threads"};
  }
  RETURN_IF_ERROR(made->measure_peaks());
  return made;
}

kernels::RunThreads KernelBench::run_threads() {
  return [this](const std::function<void(std::uint32_t)>& function) {
    auto task = [&](std::uint32_t index, std::uint32_t) { function(index); };
    team_->run(team_->thread_count(), task);
  };
}

// The best round of all threads at once: in most of them something else may run as well.
double KernelBench::peak(double (*work)(std::uint32_t rounds, float* sink)) {
  const kernels::RunThreads run = run_threads();
  std::vector<double> operations(options_.thread_count);
  std::vector<float> sinks(options_.thread_count);
  std::uint32_t rounds = 1024;
  double best = 0.0;
  for (int i = 0; i < kPeakRounds;) {
    const Tick begin = clock_.now();
    run([&](std::uint32_t thread) { operations[thread] = work(rounds, &sinks[thread]); });
    const Tick took = clock_.now() - begin;
    if (took < kPeakTicks && rounds < 1U << 24U) {
      rounds *= 2;
      continue;
    }
    double total = 0.0;
    for (const double count : operations) total += count;
    best = std::max(best, 1e-9 * total / to_seconds(took));
    ++i;
  }
  return best;
}

Result<void> KernelBench::measure_peaks() {
  peaks_.int8_gop_per_s = peak(kernels_.int8_peak);
  peaks_.float_gop_per_s = peak(kernels_.float_peak);
  RETURN_IF_ERROR(grow(packed_, uncached_bytes_));
  const std::span<std::uint64_t> words(reinterpret_cast<std::uint64_t*>(packed_.data()),
                                       uncached_bytes_ / sizeof(std::uint64_t));
  std::fill(words.begin(), words.end(), 1);  // or all pages would be one page of zeros
  peaks_.read_gb_per_s = kernels::measure_read(words, options_.thread_count, run_threads(), clock_);
  return {};
}

void KernelBench::rate(KernelFigure& figure, double operations, double peak_gop_per_s,
                       const char* peak_name, double bytes) const {
  figure.gop_per_s = 1e-9 * operations / figure.seconds;
  figure.gb_per_s = 1e-9 * bytes / figure.seconds;
  const double arithmetic = peak_gop_per_s > 0.0 ? 1e-9 * operations / peak_gop_per_s : 0.0;
  const double reading = 1e-9 * bytes / peaks_.read_gb_per_s;
  figure.bound = arithmetic > reading ? peak_name : "read";
  figure.share_of_peak = std::max(arithmetic, reading) / figure.seconds;
}

// As many as fill the buffer that the reading was measured with.
std::uint32_t KernelBench::copies_of(std::size_t bytes) const {
  return static_cast<std::uint32_t>(
      std::clamp(uncached_bytes_ / bytes, std::size_t{1}, std::size_t{kCopiesMax}));
}

// Products of one repetition. Where reading bounds them, with every copy once: then each comes from
// memory.
std::uint32_t KernelBench::products_of(const ProductBench& bench,
                                       const kernels::PackedMatrix& matrix, std::uint32_t copies,
                                       Tick one) const {
  const double operations = 2.0 * bench.columns * bench.outputs * bench.rows;
  const double peak =
      kernels::is_quantized(bench.type) ? peaks_.int8_gop_per_s : peaks_.float_gop_per_s;
  const bool reading =
      static_cast<double>(matrix.bytes()) / peaks_.read_gb_per_s > operations / peak;
  if (reading && one * copies <= kPassTicks) return copies;
  return static_cast<std::uint32_t>(std::clamp<Tick>(kShortTicks / one, 1, copies));
}

Result<KernelFigure> KernelBench::product(const ProductBench& bench) {
  const std::vector<std::byte> matrix =
      random_file_matrix(bench.type, bench.outputs, bench.columns);
  kernels::PackedMatrix packed{bench.type, bench.outputs, bench.columns, nullptr};
  const std::size_t packed_stride = AlignedBuffer::rounded_up(packed.bytes());
  const std::size_t file_stride = AlignedBuffer::rounded_up(matrix.size());
  const std::uint32_t copies = copies_of(packed_stride);
  RETURN_IF_ERROR(grow(packed_, packed_stride * copies));
  RETURN_IF_ERROR(grow(file_, file_stride * copies));
  if (!quantized_.reserve(kernels::QuantizedRows::bytes(bench.rows, bench.columns))) {
    return Error{Code::kUnavailable, "not enough memory for the rows", "choose fewer --rows"};
  }
  std::byte *own = packed_.data(), *file = file_.data();
  pack_panels(packed, matrix.data(), 0, packed.panel_count(), own);
  packed.data = own;
  for (std::size_t copy = 0; copy < copies; ++copy) {
    if (copy > 0) std::memcpy(own + packed_stride * copy, own, packed.bytes());
    std::memcpy(file + file_stride * copy, matrix.data(), matrix.size());
  }
  const std::vector<float> x = random_values(std::size_t{bench.columns} * bench.rows);
  OwnProduct product(kernels_, *team_, scratch_, quantized_, packed, x, bench.rows);
  Tick begin = clock_.now();
  product.multiply(0);
  const Tick one = std::max<Tick>(1, clock_.now() - begin);
  const std::uint32_t count = products_of(bench, packed, copies, one);
  RETURN_IF_ERROR(ggml_->record({bench.type, bench.outputs, bench.columns, file, file_stride},
                                count, x.data(), bench.rows));
  RETURN_IF_ERROR(ggml_->compute());
  // One after the other, so that a noisy spell of the machine falls on both.
  std::vector<double> ours, theirs;
  for (std::uint32_t i = 0; i < options_.repetitions; ++i) {
    begin = clock_.now();
    for (std::uint32_t copy = 0; copy < count; ++copy) product.multiply(copy);
    ours.push_back(to_seconds(clock_.now() - begin) / count);
    begin = clock_.now();
    RETURN_IF_ERROR(ggml_->compute());
    theirs.push_back(to_seconds(clock_.now() - begin) / count);
  }
  KernelFigure figure{.kernel = "product",
                      .type = std::string(type_name(bench.type)),
                      .shape = str_cat(bench.columns, "x", bench.outputs),
                      .rows = bench.rows,
                      .seconds = median(std::move(ours)),
                      .ggml_seconds = median(std::move(theirs)),
                      .difference = relative_difference(product.output(), ggml_->output())};
  const bool quantized = kernels::is_quantized(bench.type);
  rate(figure, 2.0 * bench.columns * bench.outputs * bench.rows,
       quantized ? peaks_.int8_gop_per_s : peaks_.float_gop_per_s, quantized ? "int8" : "fp32",
       static_cast<double>(packed.bytes()));
  return figure;
}

KernelFigure KernelBench::attention(const std::string& label, const kernels::AttentionShape& shape,
                                    kernels::KvFormat format, std::uint32_t depth,
                                    std::uint32_t rows) {
  kernels::AttentionBench bench{shape, format, depth, rows};
  bench.rounds = options_.repetitions;
  bench.set = options_.set;
  if (rows == 1) {
    const kernels::KvLayout layout = kernels::make_kv_layout(
        format, shape.kv_head_count, shape.key_dim, shape.value_dim, depth / 16 + 1);
    bench.layer_count = std::min(copies_of(layout.layer_bytes), 256U);
  } else {
    bench.depth = depth > rows ? (depth - rows) / 2 : 0;
    bench.layer_count = 2;
  }
  const kernels::KernelMeasurement m =
      measure_attention(bench, options_.thread_count, run_threads(), clock_);
  KernelFigure figure{.kernel = rows == 1 ? "attention decode" : "attention prefill",
                      .type = kernels::kv_format_name(format),
                      .shape = str_cat(label, " at ", bench.depth),
                      .rows = rows,
                      .seconds = m.seconds};
  const bool bytes = format != kernels::KvFormat::kF16;
  rate(figure, 1e9 * m.gflop_per_s * m.seconds, bytes ? peaks_.int8_gop_per_s : peaks_.float_gop_per_s,
       bytes ? "int8" : "fp32", 1e9 * m.gb_per_s * m.seconds);
  return figure;
}

KernelFigure KernelBench::row_operation(RowOperation operation, std::uint32_t dim,
                                        std::uint32_t rows) {
  const std::vector<float> a = random_values(std::size_t{dim} * rows);
  const std::vector<float> b = random_values(a.size());
  std::vector<float> y(a.size());
  CHECK(quantized_.reserve(kernels::QuantizedRows::bytes(rows, dim)), "no memory for the rows");
  const kernels::QuantizedRows quantized = kernels::QuantizedRows::at(quantized_.data(), rows, dim);
  KernelFigure figure{.type = "f32", .shape = str_cat(dim), .rows = rows};
  double bytes_per_value = 0.0;  // read and written
  const auto run = [&] {
    for_rows(*team_, rows, dim, [&](std::uint32_t row) {
      const std::size_t at = std::size_t{dim} * row;
      switch (operation) {
        case RowOperation::kQuantizeRow:
          return kernels_.quantize_row(a.data() + at, dim, kExcessRatio, quantized, row);
        case RowOperation::kRmsNorm:
          return kernels_.rms_norm(a.data() + at, b.data(), dim, 1e-5F, y.data() + at);
        case RowOperation::kGlu:
          return kernels_.glu(a.data() + at, b.data() + at, dim, kernels::Gate::kSilu,
                              y.data() + at);
      }
    });
  };
  switch (operation) {
    case RowOperation::kQuantizeRow:
      figure.kernel = "quantize_row";
      bytes_per_value = 5.0;
      break;
    case RowOperation::kRmsNorm:
      figure.kernel = "rms_norm";
      bytes_per_value = 8.0;
      break;
    case RowOperation::kGlu:
      figure.kernel = "glu";
      bytes_per_value = 12.0;
      break;
  }
  run();
  Tick begin = clock_.now();
  run();
  const Tick one = std::max<Tick>(1, clock_.now() - begin);
  const auto count = static_cast<std::uint32_t>(std::clamp<Tick>(kShortTicks / one, 1, 1'000'000));
  std::vector<double> times;
  for (std::uint32_t i = 0; i < options_.repetitions; ++i) {
    begin = clock_.now();
    for (std::uint32_t j = 0; j < count; ++j) run();
    times.push_back(to_seconds(clock_.now() - begin) / count);
  }
  figure.seconds = median(std::move(times));
  rate(figure, 0.0, 0.0, "", bytes_per_value * dim * rows);
  return figure;
}

}  // namespace refrain::model
