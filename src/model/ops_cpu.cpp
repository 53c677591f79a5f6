// Records a batch for the CPU kernels. See ops_cpu.h; cpu_interpreter.cpp runs what is recorded.
#include "model/ops_cpu.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "ggml.h"
#include "kernels/attention_bench.h"
#include "model/core_count.h"
#include "model/cpu_interpreter.h"
#include "model/weights.h"

namespace refrain::model {
namespace {

// Handles are value ids plus one, so that a null handle is no value.
Operators::Node node_of(ValueId id) {
  return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(id) + 1)};
}
ValueId id_of(Operators::Node node) {
  DCHECK(node.handle != nullptr, "operator on a null node");
  return static_cast<ValueId>(reinterpret_cast<std::uintptr_t>(node.handle) - 1);
}

// Values of a row stand out, and become excesses (kernels/linear.h), from this ratio to the row's
// root mean square on: few enough to cost little, and the steps of all others stay fine.
// docs/reference/accuracy.md has what was measured.
constexpr float kExcessRatio = 3.0F;

}  // namespace

CpuOperators::CpuOperators(const Model& model, KvArena& arena, kernels::InstructionSet set,
                           std::unique_ptr<WorkerTeam> team, std::unique_ptr<PackedWeights> packed)
    : shape_(model.shape()),
      arena_(arena),
      set_(set),
      team_(std::move(team)),
      packed_(std::move(packed)),
      rotary_(model),
      interpreter_(std::make_unique<CpuInterpreter>(shape_, arena, kernels::cpu_kernels(set),
                                                    *team_, *packed_)) {}
CpuOperators::~CpuOperators() = default;

Result<std::unique_ptr<CpuOperators>> CpuOperators::create(const Model& model, KvArena& arena,
                                                           const ExecutorOptions& options) {
  const kernels::InstructionSet set =
      options.instruction_set.value_or(kernels::best_instruction_set());
  ASSIGN_OR_RETURN(auto team, WorkerTeam::create(compute_thread_count(options.thread_count)));
  ASSIGN_OR_RETURN(auto packed, PackedWeights::pack(model.weights(), *team, options.on_progress));
  return std::unique_ptr<CpuOperators>(
      new CpuOperators(model, arena, set, std::move(team), std::move(packed)));
}

std::string CpuOperators::numerics() const {
  return "cpu/3; " + kernels::attention_numerics(arena_.format(), set_);
}

void CpuOperators::begin(const BatchPlan& plan) {
  plan_ = &plan;
  program_.clear();
  angles_ = {kNoValue, kNoValue};
  hidden_ = kNoValue;
}

ValueId CpuOperators::record(CpuOperation operation, std::uint32_t rows, std::uint32_t dim) {
  operation.result = program_.new_value(rows, dim, operation.op == CpuOp::kQuantize);
  program_.add(operation);
  return operation.result;
}

std::uint32_t CpuOperators::batch_rows() const {
  return static_cast<std::uint32_t>(plan_->tokens.size());
}

Operators::Node CpuOperators::embed(Weight table) {
  return node_of(record({.op = CpuOp::kEmbed, .weight = table}, batch_rows(),
                        static_cast<std::uint32_t>(table->ne[0])));
}

Operators::Node CpuOperators::scale(Node x, float factor) {
  const CpuValue& in = program_.value(id_of(x));
  return node_of(record({.op = CpuOp::kScale, .a = id_of(x), .number = factor}, in.rows, in.dim));
}

Operators::Node CpuOperators::add(Node a, Node b) {
  const CpuValue& in = program_.value(id_of(a));
  return node_of(record({.op = CpuOp::kAdd, .a = id_of(a), .b = id_of(b)}, in.rows, in.dim));
}

Operators::Node CpuOperators::rms_norm(Node x, Weight weight, std::uint32_t dim, float epsilon) {
  const CpuValue& in = program_.value(id_of(x));
  return node_of(record(
      {.op = CpuOp::kRmsNorm, .a = id_of(x), .weight = weight, .dim = dim, .number = epsilon},
      in.rows, in.dim));
}

// A quantized matrix multiplies quantized rows; all matrices share one quantized form of a value.
ValueId CpuOperators::input_of(ValueId x, Weight matrix) {
  if (!is_quantized(packed_->of(matrix).type)) return x;
  const CpuValue in = program_.value(x);
  if (in.quantized_form != kNoValue) return in.quantized_form;
  const ValueId made =
      record({.op = CpuOp::kQuantize, .a = x, .number = kExcessRatio}, in.rows, in.dim);
  program_.value(x).quantized_form = made;
  return made;
}

Operators::Node CpuOperators::linear(Node x, Weight matrix, Weight bias) {
  const ValueId input = input_of(id_of(x), matrix);
  return node_of(record({.op = CpuOp::kLinear, .a = input, .weight = matrix, .bias = bias},
                        program_.value(input).rows, static_cast<std::uint32_t>(matrix->ne[1])));
}

Operators::Node CpuOperators::rope(Node x, std::uint32_t head_dim, const RopeSettings& settings,
                                   float base, bool scaled, Weight /*factors*/) {
  // Two sets of frequencies, made at load, are all that a model has.
  const bool local = !scaled && base == shape_.rope.base_local;
  CHECK(local || (scaled && base == shape_.rope.base), "a rotation the model does not have");
  const CpuValue in = program_.value(id_of(x));
  ValueId& angles = angles_[local ? 1 : 0];
  if (angles == kNoValue) {
    angles =
        record({.op = CpuOp::kAngles, .frequencies = local ? &rotary_.local() : &rotary_.global()},
               in.rows, settings.dimensions);
  }
  return node_of(record({.op = CpuOp::kRotate,
                         .a = id_of(x),
                         .b = angles,
                         .dim = head_dim,
                         .flag = settings.layout == RopeLayout::kHalves},
                        in.rows, in.dim));
}

void CpuOperators::store_kv(std::uint32_t layer, Node key, Node value) {
  program_.add(
      {.op = CpuOp::kStoreKv, .a = id_of(key), .b = id_of(value), .attention = {.layer = layer}});
}

Operators::Node CpuOperators::attend(Node query, const AttentionSettings& settings) {
  return node_of(record({.op = CpuOp::kAttend, .a = id_of(query), .attention = settings},
                        program_.value(id_of(query)).rows, shape_.head_count * shape_.value_dim));
}

Operators::Node CpuOperators::glu(Node a, Node b, Gate gate) {
  const CpuValue& in = program_.value(id_of(a));
  return node_of(
      record({.op = CpuOp::kGlu, .a = id_of(a), .b = id_of(b), .gate = gate}, in.rows, in.dim));
}

bool CpuOperators::wants_output() const {
  return !plan_->selected.empty();
}

ValueId CpuOperators::gather(ValueId x, const std::int32_t* rows, std::size_t count) {
  return record({.op = CpuOp::kGather, .a = x, .rows = rows}, static_cast<std::uint32_t>(count),
                program_.value(x).dim);
}

Operators::Node CpuOperators::select_output_rows(Node x) {
  CHECK(wants_output(), "no row wants output");
  if (plan_->selected.size() == plan_->tokens.size()) return x;
  return node_of(gather(id_of(x), plan_->selected.data(), plan_->selected.size()));
}

void CpuOperators::output(Node hidden, Weight matrix, float soft_cap) {
  hidden_ = id_of(hidden);
  ValueId rows = hidden_;
  if (plan_->logit_rows.empty()) return;
  if (plan_->logit_rows.size() != plan_->selected.size()) {
    logit_rows_.assign(plan_->logit_rows.begin(), plan_->logit_rows.end());
    rows = gather(hidden_, logit_rows_.data(), logit_rows_.size());
  }
  logits_ = id_of(linear(node_of(rows), matrix, nullptr));
  if (soft_cap > 0.0F) program_.add({.op = CpuOp::kSoftCap, .a = logits_, .number = soft_cap});
}

// The results lie in the output itself.
Result<void> CpuOperators::run(BatchOutput& output) {
  if (hidden_ != kNoValue) {
    output.logits.resize(plan_->logit_rows.size() * shape_.vocabulary_size);
    if (!output.logits.empty()) program_.value(logits_).external = output.logits.data();
    hidden_rows_.resize(plan_->selected.size() * shape_.embedding_dim);
    program_.value(hidden_).external = hidden_rows_.data();
  }
  RETURN_IF_ERROR(interpreter_->run(program_, *plan_));
  interpreter_->take_looks(output);
  if (hidden_ == kNoValue) return {};
  const std::size_t dim = shape_.embedding_dim;
  output.hidden.resize(plan_->hidden_rows.size() * dim);
  float* to = output.hidden.data();
  for (const std::uint32_t row : plan_->hidden_rows) {
    to = std::copy_n(hidden_rows_.data() + row * dim, dim, to);
  }
  return {};
}

Result<void> CpuOperators::reserve() {
  if (hidden_ != kNoValue) {
    // The logits lie in the caller's output, whose memory is not ours to count.
    static float elsewhere = 0.0F;
    if (!plan_->logit_rows.empty()) program_.value(logits_).external = &elsewhere;
  }
  return interpreter_->reserve(program_.arrange());
}

std::uint64_t CpuOperators::scratch_bytes() const {
  return interpreter_->bytes() + hidden_rows_.capacity() * sizeof(float);
}

double CpuOperators::measure_read_bytes_per_s() {
  constexpr std::size_t kMostBytes = std::size_t{256} << 20U;
  const std::span<const std::byte> weights = packed_->memory();
  const std::span<const std::uint64_t> words(
      reinterpret_cast<const std::uint64_t*>(weights.data()),
      std::min(weights.size(), kMostBytes) / sizeof(std::uint64_t));
  const kernels::RunThreads run = [this](const std::function<void(std::uint32_t)>& function) {
    auto task = [&](std::uint32_t index, std::uint32_t) { function(index); };
    team_->run(team_->thread_count(), task);
  };
  const SteadyClock clock;
  return 1e9 * kernels::measure_read(words, team_->thread_count(), run, clock);
}

}  // namespace refrain::model
