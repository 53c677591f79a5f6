// Records and computes the graph of one batch. Engine thread; the attention node runs on the
// back end's threads, which only read what begin() set up.
#include "model/ops_ggml.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "model/ggml_graph.h"

namespace refrain::model {
namespace {

constexpr std::size_t kNodesPerLayer = 96;      // recorded tensors, views included
constexpr std::size_t kNodesBesideLayers = 64;  // inputs, embedding, output
// Rows that go through the output matrix together: bounds the memory that logits take.
constexpr std::size_t kLogitRowsMax = 32;

ggml_tensor* tensor_of(Operators::Node node) {
  DCHECK(node.handle != nullptr, "operator on a null node");
  return static_cast<ggml_tensor*>(node.handle);
}

// ggml takes weights as mutable though it only reads them.
ggml_tensor* tensor_of(Weight weight) {
  return const_cast<ggml_tensor*>(weight);
}

// ggml rounds the rows of a product with a quantized matrix to 8 bits in groups of 32. Small models
// lose close decisions to that (docs/reference/accuracy.md), so what the rounding took away goes
// through the product a second time: matrix * x + matrix * (x - rounded x).
bool rounds_rows_by_32(const ggml_tensor* matrix) {
  const ggml_type rows = ggml_get_type_traits_cpu(matrix->type)->vec_dot_type;
  return rows == GGML_TYPE_Q8_0 || rows == GGML_TYPE_Q8_1;
}

ggml_tensor* product(ggml_context* context, ggml_tensor* matrix, ggml_tensor* rows) {
  ggml_tensor* coarse = ggml_mul_mat(context, matrix, rows);
  if (!rounds_rows_by_32(matrix)) return coarse;
  ggml_tensor* rounded =
      ggml_cast(context, ggml_cast(context, rows, GGML_TYPE_Q8_0), GGML_TYPE_F32);
  ggml_tensor* lost = ggml_sub(context, rows, rounded);
  return ggml_add(context, coarse, ggml_mul_mat(context, matrix, lost));
}

}  // namespace

struct GgmlOperators::AttentionNode {
  const GgmlOperators* owner = nullptr;
  std::uint32_t layer = 0;
  std::byte* kv = nullptr;  // the layer in the arena
  kernels::AttentionShape shape;
  std::atomic<std::uint32_t> next_task = 0;
};

GgmlOperators::GgmlOperators(const ModelShape& shape, KvArena& arena, std::uint32_t thread_count)
    : shape_(shape),
      arena_(arena),
      kernels_(kernels::cpu_kernels(kernels::best_instruction_set())),
      thread_count_(thread_count) {}
GgmlOperators::~GgmlOperators() = default;

Result<std::unique_ptr<GgmlOperators>> GgmlOperators::create(const ModelShape& shape,
                                                             KvArena& arena,
                                                             std::uint32_t thread_count) {
  std::unique_ptr<GgmlOperators> made(new GgmlOperators(shape, arena, thread_count));
  ASSIGN_OR_RETURN(made->backend_, GgmlBackend::create(thread_count));
  ASSIGN_OR_RETURN(made->layers_graph_,
                   GgmlGraph::create(shape.layer_count * kNodesPerLayer + kNodesBesideLayers));
  ASSIGN_OR_RETURN(made->logits_graph_, GgmlGraph::create(kNodesBesideLayers));
  made->attention_nodes_ = std::make_unique<AttentionNode[]>(shape.layer_count);
  const kernels::AttentionShape attention{shape.head_count, shape.kv_head_count, shape.key_dim,
                                          shape.value_dim, shape.attention_scale};
  if (!made->attention_scratch_.reserve(
          kernels::attention_scratch_floats(attention) * sizeof(float), thread_count)) {
    return Error{Code::kUnavailable, "not enough memory for attention"};
  }
  return made;
}

void GgmlOperators::begin(const BatchPlan& plan) {
  plan_ = &plan;
  hidden_ = nullptr;
  layers_graph_->clear();
  const auto rows = static_cast<std::int64_t>(plan.tokens.size());
  tokens_ = new_input(GGML_TYPE_I32, rows);
  positions_ = new_input(GGML_TYPE_I32, rows);
  selected_ = new_input(GGML_TYPE_I32, static_cast<std::int64_t>(plan.selected.size()));
}

ggml_tensor* GgmlOperators::new_input(int type, std::int64_t count) {
  if (count == 0) return nullptr;
  ggml_tensor* tensor =
      ggml_new_tensor_1d(layers_graph_->context(), static_cast<ggml_type>(type), count);
  ggml_set_input(tensor);
  layers_graph_->add(tensor);
  return tensor;
}

Operators::Node GgmlOperators::embed(Weight table) {
  return {ggml_get_rows(layers_graph_->context(), tensor_of(table), tokens_)};
}

Operators::Node GgmlOperators::scale(Node x, float factor) {
  return {ggml_scale(layers_graph_->context(), tensor_of(x), factor)};
}

Operators::Node GgmlOperators::add(Node a, Node b) {
  return {ggml_add(layers_graph_->context(), tensor_of(a), tensor_of(b))};
}

Operators::Node GgmlOperators::rms_norm(Node x, Weight weight, std::uint32_t dim, float epsilon) {
  ggml_context* context = layers_graph_->context();
  ggml_tensor* rows = tensor_of(x);
  const std::int64_t width = rows->ne[0], count = rows->ne[1];
  if (width != dim) rows = ggml_reshape_2d(context, rows, dim, width / dim * count);
  rows = ggml_mul(context, ggml_rms_norm(context, rows, epsilon), tensor_of(weight));
  if (width != dim) rows = ggml_reshape_2d(context, rows, width, count);
  return {rows};
}

Operators::Node GgmlOperators::linear(Node x, Weight matrix, Weight bias) {
  ggml_context* context = layers_graph_->context();
  ggml_tensor* rows = product(context, tensor_of(matrix), tensor_of(x));
  if (bias != nullptr) rows = ggml_add(context, rows, tensor_of(bias));
  return {rows};
}

Operators::Node GgmlOperators::rope(Node x, std::uint32_t head_dim, const RopeSettings& settings,
                                    float base, bool scaled, Weight factors) {
  ggml_context* context = layers_graph_->context();
  ggml_tensor* rows = tensor_of(x);
  const std::int64_t width = rows->ne[0], count = rows->ne[1];
  const bool yarn = scaled && settings.scaling == RopeScaling::kYarn;
  const bool stretched = yarn || (scaled && settings.scaling == RopeScaling::kLinear);
  ggml_tensor* rotated = ggml_rope_ext(
      context, ggml_reshape_3d(context, rows, head_dim, width / head_dim, count), positions_,
      scaled ? tensor_of(factors) : nullptr, static_cast<int>(settings.dimensions),
      settings.layout == RopeLayout::kHalves ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL,
      static_cast<int>(settings.original_context), base, stretched ? 1.0F / settings.factor : 1.0F,
      yarn ? 1.0F : 0.0F, scaled ? settings.attention_factor : 1.0F, settings.beta_fast,
      settings.beta_slow);
  return {ggml_reshape_2d(context, rotated, width, count)};
}

void GgmlOperators::store_kv(std::uint32_t layer, Node key, Node value) {
  AttentionNode& node = attention_nodes_[layer];
  node.owner = this;
  node.layer = layer;
  node.kv = arena_.layer(layer);
  ggml_tensor* arguments[] = {tensor_of(key), tensor_of(value)};
  layers_graph_->add(ggml_custom_4d(layers_graph_->context(), GGML_TYPE_F32, 1, 1, 1, 1, arguments,
                                    2, compute_store, GGML_N_TASKS_MAX, &node));
}

void GgmlOperators::compute_store(ggml_tensor* result, int thread, int thread_count, void* data) {
  const auto& node = *static_cast<AttentionNode*>(data);
  const kernels::KvLayout& layout = node.owner->arena_.layout();
  const std::vector<std::int64_t>& slots = node.owner->plan_->slots;
  const auto index = static_cast<std::size_t>(thread),
             count = static_cast<std::size_t>(thread_count);
  const std::size_t first = slots.size() * index / count;
  const std::size_t end = slots.size() * (index + 1) / count;
  const std::size_t key_row = std::size_t{layout.kv_head_count} * layout.key_dim;
  const std::size_t value_row = std::size_t{layout.kv_head_count} * layout.value_dim;
  const kernels::RemainderRow* remainders = node.owner->plan_->remainders.stored();
  if (remainders != nullptr) remainders += first;  // null where the layout keeps none
  node.owner->kernels_.store_kv_rows(
      layout, node.kv, node.layer, slots.data() + first, end - first,
      static_cast<const float*>(result->src[0]->data) + first * key_row,
      static_cast<const float*>(result->src[1]->data) + first * value_row, remainders);
}

Operators::Node GgmlOperators::attend(Node query, const AttentionSettings& settings) {
  // store_kv() has put the writes of this layer into the graph before this node.
  AttentionNode& node = attention_nodes_[settings.layer];
  node.shape = {shape_.head_count, shape_.kv_head_count, shape_.key_dim,   shape_.value_dim,
                settings.scale,    settings.window,      settings.soft_cap};
  node.next_task.store(0, std::memory_order_relaxed);
  ggml_tensor* arguments[] = {tensor_of(query)};
  return {ggml_custom_4d(
      layers_graph_->context(), GGML_TYPE_F32, std::int64_t{shape_.head_count} * shape_.value_dim,
      tensor_of(query)->ne[1], 1, 1, arguments, 1, compute_attention, GGML_N_TASKS_MAX, &node)};
}

void GgmlOperators::compute_attention(ggml_tensor* result, int thread, int /*thread_count*/,
                                      void* data) {
  auto& node = *static_cast<AttentionNode*>(data);
  const GgmlOperators& self = *node.owner;
  const BatchPlan& plan = *self.plan_;
  kernels::AttentionCall call;
  call.shape = node.shape;
  call.layout = self.arena_.layout();
  call.kv = node.kv;
  call.query = static_cast<const float*>(result->src[0]->data);
  call.output = static_cast<float*>(result->data);
  call.positions = plan.keys.data();
  call.sequences = plan.sequences.data();
  call.block_size = self.arena_.block_size();
  call.layer = node.layer;
  call.remainders = plan.remainders.seen();
  float* scratch = self.attention_scratch_.floats_of(static_cast<std::size_t>(thread));
  kernels::AttentionKernel* const kernel = self.kernels_.attention(call.layout.format);
  while (true) {
    const std::uint32_t task = node.next_task.fetch_add(1, std::memory_order_relaxed);
    if (task >= plan.attention.tasks.size()) return;
    kernel(call, plan.attention, plan.attention.tasks[task], scratch);
  }
}

Operators::Node GgmlOperators::glu(Node a, Node b, Gate gate) {
  ggml_context* context = layers_graph_->context();
  return {gate == Gate::kSilu ? ggml_swiglu_split(context, tensor_of(a), tensor_of(b))
                              : ggml_geglu_split(context, tensor_of(a), tensor_of(b))};
}

bool GgmlOperators::wants_output() const {
  return !plan_->selected.empty();
}

Operators::Node GgmlOperators::select_output_rows(Node x) {
  CHECK(wants_output(), "no row wants output");
  if (plan_->selected.size() == plan_->tokens.size()) return x;
  return {ggml_get_rows(layers_graph_->context(), tensor_of(x), selected_)};
}

void GgmlOperators::output(Node hidden, Weight matrix, float soft_cap) {
  hidden_ = tensor_of(hidden);
  ggml_set_output(hidden_);
  layers_graph_->add(hidden_);
  output_matrix_ = matrix;
  soft_cap_ = soft_cap;
}

Result<void> GgmlOperators::reserve() {
  return layers_graph_->reserve();
}

void GgmlOperators::fill_inputs() {
  const auto fill = [](ggml_tensor* input, const auto& values) {
    // An input that no recorded operator reads has no memory.
    if (input == nullptr || input->data == nullptr) return;
    ggml_backend_tensor_set(input, values.data(), 0, values.size() * sizeof(values[0]));
  };
  fill(tokens_, plan_->tokens);
  fill(positions_, plan_->positions);
  fill(selected_, plan_->selected);
}

Result<void> GgmlOperators::run(BatchOutput& output) {
  if (!plan_->mass_rows.empty()) {
    return Error{Code::kUnsupported, "the reference operators give no attention mass",
                 "use --kernels auto"};
  }
  if (!plan_->query_rows.empty()) {
    return Error{Code::kUnsupported, "the reference operators give no queries",
                 "use --kernels auto"};
  }
  RETURN_IF_ERROR(layers_graph_->allocate());
  fill_inputs();
  RETURN_IF_ERROR(backend_->compute(layers_graph_->graph()));
  collect_hidden(output);
  return compute_logits(output);
}

void GgmlOperators::collect_hidden(BatchOutput& output) const {
  const std::size_t dim = shape_.embedding_dim;
  output.hidden.resize(plan_->hidden_rows.size() * dim);
  float* to = output.hidden.data();
  for (const std::uint32_t row : plan_->hidden_rows) {
    to = std::copy_n(static_cast<const float*>(hidden_->data) + row * dim, dim, to);
  }
}

Result<void> GgmlOperators::compute_logits(BatchOutput& output) {
  const std::size_t dim = shape_.embedding_dim, vocabulary = shape_.vocabulary_size;
  const std::vector<std::uint32_t>& wanted = plan_->logit_rows;
  output.logits.resize(wanted.size() * vocabulary);
  for (std::size_t first = 0; first < wanted.size(); first += kLogitRowsMax) {
    const std::size_t count = std::min(kLogitRowsMax, wanted.size() - first);
    logits_graph_->clear();
    ggml_context* context = logits_graph_->context();
    ggml_tensor* rows = ggml_new_tensor_2d(context, GGML_TYPE_F32, static_cast<std::int64_t>(dim),
                                           static_cast<std::int64_t>(count));
    ggml_set_input(rows);
    ggml_tensor* logits = product(context, tensor_of(output_matrix_), rows);
    if (soft_cap_ > 0.0F) {
      logits = ggml_tanh(context, ggml_scale(context, logits, 1.0F / soft_cap_));
      logits = ggml_scale(context, logits, soft_cap_);
    }
    ggml_set_output(logits);
    logits_graph_->add(logits);
    RETURN_IF_ERROR(logits_graph_->allocate());
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(static_cast<const float*>(hidden_->data) + wanted[first + i] * dim, dim,
                  static_cast<float*>(rows->data) + i * dim);
    }
    RETURN_IF_ERROR(backend_->compute(logits_graph_->graph()));
    std::copy_n(static_cast<const float*>(logits->data), count * vocabulary,
                output.logits.data() + first * vocabulary);
  }
  return {};
}

std::uint64_t GgmlOperators::scratch_bytes() const {
  return layers_graph_->bytes() + logits_graph_->bytes() + attention_scratch_.bytes();
}

std::string GgmlOperators::numerics() const {
  return "ggml-cpu-ref/2 " + ggml_instruction_set() + "; " +
         kernels::attention_numerics(arena_.format(), kernels::best_instruction_set());
}

}  // namespace refrain::model
