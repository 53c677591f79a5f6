// See plan_input.h.
#include "cli/plan_input.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "base/str.h"
#include "capacity/model_ledger.h"
#include "cli/files.h"
#include "cli/kv_sizing.h"
#include "cli/runtime.h"
#include "model/core_count.h"
#include "model/kernel_bench.h"
#include "model/model_facts.h"
#include "model/weight_types.h"

namespace refrain::cli {
namespace {

using capacity::PlanInput;

constexpr auto kHandOptions =
    std::to_array<std::string_view>({"--params", "--weights", "--layers", "--heads", "--kv-heads",
                                     "--head-dim", "--sliding-window", "--global-period"});

Error option_error(std::string_view flag, std::string message, std::string hint) {
  return Error{Code::kInvalidArgument, std::move(message), std::move(hint), std::string(flag)};
}

// The first of the numbers given by hand; "" = none.
std::string_view hand_option(const Settings& settings) {
  for (const std::string_view flag : kHandOptions) {
    if (settings.is_set(flag)) return flag;
  }
  return "";
}

std::uint32_t number(const Settings& settings, std::string_view flag) {
  return settings.is_set(flag) ? static_cast<std::uint32_t>(settings.integer(flag)) : 0;
}

Result<std::uint32_t> needed(const Settings& settings, std::string_view flag,
                             std::string_view what) {
  if (settings.is_set(flag)) return number(settings, flag);
  return option_error(flag, str_cat("a model given by hand needs ", flag, ": ", what),
                      "or name a GGUF file with --model, which has all these numbers");
}

Result<model::ModelShape> shape_by_hand(const Settings& settings) {
  model::ModelShape shape;
  ASSIGN_OR_RETURN(shape.layer_count, needed(settings, "--layers", "how many layers it has"));
  ASSIGN_OR_RETURN(shape.kv_head_count,
                   needed(settings, "--kv-heads", "how many key and value heads a layer has"));
  ASSIGN_OR_RETURN(shape.key_dim, needed(settings, "--head-dim", "how many dimensions a head has"));
  shape.value_dim = shape.key_dim;
  shape.head_count = number(settings, "--heads");
  if (shape.head_count % shape.kv_head_count != 0)
    return option_error("--heads",
                        str_cat("--heads ", shape.head_count, " is no multiple of --kv-heads ",
                                shape.kv_head_count),
                        "as many query heads share each key and value head");
  shape.sliding_window = number(settings, "--sliding-window");
  shape.global_layer_period = number(settings, "--global-period");
  if (shape.global_layer_period > 0 && shape.sliding_window == 0)
    return option_error("--global-period", "--global-period says nothing without a window",
                        "give --sliding-window too, or leave --global-period out");
  if (settings.is_set("--params"))
    shape.parameter_count = static_cast<std::uint64_t>(settings.real("--params"));
  if (settings.is_set("--weights")) shape.weight_bytes = settings.size("--weights");
  return shape;
}

Result<void> take_hand_numbers(const Settings& settings, PlanInput& input) {
  if (settings.setting("--model").source == Source::kFlag)
    return option_error(hand_option(settings),
                        str_cat("--model and ", hand_option(settings), " contradict each other"),
                        "give a model file or its numbers, not both");
  ASSIGN_OR_RETURN(input.shape, shape_by_hand(settings));
  ASSIGN_OR_RETURN(input.context_tokens,
                   needed(settings, "--context", "how long prompt and answer are together"));
  return {};
}

Result<void> take_model(const Settings& settings, PlanRequest& request) {
  ASSIGN_OR_RETURN(
      const std::string path,
      find_model(settings.text("--model"), model_folders(settings.environment(), binary_path())));
  ASSIGN_OR_RETURN(model::ModelFacts facts, model::read_model_facts(path));
  request.model = std::filesystem::path(path).stem().string();
  request.quantization = facts.quantization;
  PlanInput& input = request.input;
  input.shape = std::move(facts.shape);
  const std::uint32_t longest = input.shape.context_length;
  input.context_tokens = settings.is_set("--context") ? number(settings, "--context") : longest;
  if (input.context_tokens > longest)
    return option_error("--context",
                        str_cat("--context ", input.context_tokens, " is more than the ", longest,
                                " tokens this model was trained for"),
                        str_cat("set --context to at most ", longest));
  return {};
}

// What K/V may take: --kv-budget, or what --memory leaves, or for a model what `refrain serve`
// would take here and now.
Result<void> take_memory(const Settings& settings, PlanRequest& request) {
  PlanInput& input = request.input;
  input.activation_bytes = settings.size("--reserve");
  const std::uint64_t beside = input.shape.weight_bytes + input.activation_bytes;
  const std::uint64_t budget = settings.size("--kv-budget");  // 0 = auto
  if (settings.is_set("--memory")) {
    const std::uint64_t memory = settings.size("--memory");
    if (input.shape.weight_bytes == 0)
      return option_error("--memory", "what --memory leaves for context depends on the weights",
                          "give their size with --weights, e.g. --weights 14GB");
    if (memory <= beside || memory - beside < budget)
      return option_error(
          "--memory",
          str_cat("--memory ", format_bytes(memory), " is ",
                  memory <= beside ? "" : "too small for the budget: ",
                  format_bytes(beside + budget - memory), " less than weights (",
                  format_bytes(input.shape.weight_bytes), ") and reserve (",
                  format_bytes(input.activation_bytes),
                  budget > 0 ? str_cat(") and --kv-budget (", format_bytes(budget), ")") : ")"),
          "raise --memory, lower --reserve, or take a smaller model or quantization");
    input.kv_budget_bytes = budget > 0 ? budget : memory - beside;
    request.budget_from = budget > 0 ? "--kv-budget" : "what --memory leaves";
    return {};
  }
  if (budget > 0) {
    input.kv_budget_bytes = budget;
    request.budget_from = "--kv-budget";
    return {};
  }
  if (request.model.empty()) return {};
  const std::uint64_t available = available_memory_bytes();
  const Result<KvSizing> sizing =
      size_kv({.available_bytes = available > beside ? available - beside : 0,
               .bytes_per_token = model::kv_bytes_per_token(input.shape, input.format),
               .block_size = input.block_size,
               .wanted_context = number(settings, "--context"),
               .model_context = input.context_tokens});
  // Planning for another machine is what a planner is for.
  if (!sizing.ok()) {
    request.budget_from = str_cat("not on this machine: ", sizing.error().message);
    return {};
  }
  input.kv_budget_bytes = sizing->budget_bytes;
  request.budget_from = "auto, as `refrain serve` would take here now";
  return {};
}

// The kernels' type for a file's main one; without a file, one with about that many bits a weight.
kernels::WeightType measured_type(const PlanRequest& request) {
  using enum kernels::WeightType;
  for (const kernels::WeightType type :
       {kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K}) {
    const std::string_view name = model::type_name(type);
    const auto same = [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) ==
             std::tolower(static_cast<unsigned char>(b));
    };
    if (std::equal(name.begin(), name.end(), request.quantization.begin(),
                   request.quantization.end(), same))
      return type;
  }
  const model::ModelShape& shape = request.input.shape;
  if (shape.parameter_count == 0 || shape.weight_bytes == 0) return kQ4_0;
  const double bits =
      8.0 * static_cast<double>(shape.weight_bytes) / static_cast<double>(shape.parameter_count);
  if (bits >= 24) return kF32;
  if (bits >= 12) return kF16;
  return bits >= 7 ? kQ8_0 : kQ4_0;
}

// Rows of a step of prefill; the default of --step-tokens.
constexpr std::uint32_t kStepRows = 256;

Result<void> measure_prefill(PlanRequest& request, model::KernelBench& bench,
                             const std::string& with) {
  PlanInput& input = request.input;
  const model::ModelShape& shape = input.shape;
  // Without a file the matrices are those of a common size.
  const std::uint32_t columns = shape.embedding_dim > 0 ? shape.embedding_dim : 4096;
  const std::uint32_t outputs = shape.feed_forward_dim > 0 ? shape.feed_forward_dim : 4096;
  const kernels::WeightType type = measured_type(request);
  ASSIGN_OR_RETURN(const model::KernelFigure product,
                   bench.product({type, columns, outputs, kStepRows}));
  input.speed.flop_per_s = 1e9 * product.gop_per_s;
  request.flop_from = str_cat(with, ", products of ", model::type_name(type), " ", product.shape);
  if (shape.head_count == 0) return {};
  const kernels::AttentionShape attention{shape.head_count, shape.kv_head_count, shape.key_dim,
                                          shape.value_dim, 1.0F};
  const std::uint32_t depth = std::min(input.context_tokens, 32768U);
  const model::KernelFigure figure =
      bench.attention("plan", attention, input.format, depth, std::min(depth, kStepRows));
  input.speed.attention_flop_per_s = 1e9 * figure.gop_per_s;
  return {};
}

Result<void> take_speed(const Settings& settings, PlanRequest& request, Console& console) {
  capacity::MachineSpeed& speed = request.input.speed;
  if (settings.is_set("--bandwidth")) {
    speed.read_bytes_per_s = settings.real("--bandwidth");
    request.bandwidth_from = "--bandwidth";
  }
  if (settings.is_set("--gflops")) {
    speed.flop_per_s = 1e9 * settings.real("--gflops");
    request.flop_from = "--gflops";
  }
  if (!settings.boolean("--measure")) return {};
  ASSIGN_OR_RETURN(const kernels::InstructionSet set, instruction_set(settings));
  const std::uint32_t threads =
      model::compute_thread_count(static_cast<std::uint32_t>(settings.integer("--threads")));
  console.progress("measuring this machine", 0);
  ASSIGN_OR_RETURN(const auto bench, model::KernelBench::create(
                                         {.thread_count = threads, .repetitions = 3, .set = set}));
  const std::string with =
      str_cat("measured with ", threads, threads == 1 ? " thread" : " threads");
  if (speed.read_bytes_per_s <= 0) {
    speed.read_bytes_per_s = 1e9 * bench->peaks().read_gb_per_s;
    request.bandwidth_from = with;
  }
  if (speed.flop_per_s <= 0) RETURN_IF_ERROR(measure_prefill(request, *bench, with));
  return {};
}

}  // namespace

Result<PlanRequest> read_plan_request(const Settings& settings, Console& console) {
  PlanRequest request;
  PlanInput& input = request.input;
  const std::string& format = settings.text("--kv-format");
  input.format = kernels::kv_format_named(format).value_or(kernels::KvFormat::kF16);
  input.block_size = static_cast<std::uint32_t>(settings.integer("--block-size"));
  input.round_tokens = number(settings, "--round-tokens");
  if (hand_option(settings).empty()) {
    RETURN_IF_ERROR(take_model(settings, request));
  } else {
    RETURN_IF_ERROR(take_hand_numbers(settings, input));
  }
  if (input.round_tokens > input.context_tokens)
    return option_error("--round-tokens",
                        str_cat("one round of ", input.round_tokens,
                                " tokens is longer than the context of ", input.context_tokens),
                        "lower --round-tokens or raise --context");
  RETURN_IF_ERROR(take_memory(settings, request));
  RETURN_IF_ERROR(take_speed(settings, request, console));
  return request;
}

}  // namespace refrain::cli
