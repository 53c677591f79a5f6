// `refrain bench kernels`: every CPU kernel alone, beside the machine's measured peaks and beside
// ggml's product. Needs no model. Main thread.
#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/runtime.h"
#include "model/core_count.h"
#include "model/ggml_graph.h"
#include "model/kernel_bench.h"
#include "model/weight_types.h"

namespace refrain::cli {
namespace {

using kernels::WeightType;

constexpr std::array kTypes = {WeightType::kF32,  WeightType::kF16,  WeightType::kBF16,
                               WeightType::kQ4_0, WeightType::kQ4_1, WeightType::kQ5_0,
                               WeightType::kQ5_1, WeightType::kQ8_0, WeightType::kQ4_K,
                               WeightType::kQ5_K, WeightType::kQ6_K};

struct MatrixShape {
  std::uint32_t columns = 0, outputs = 0;
};

struct AttentionModel {
  std::string label;  // query heads / KV heads x dimensions
  kernels::AttentionShape shape;
};

// SmolLM2 135M, Gemma 3 270M, Llama 3.2 1B, Llama 3.1 8B.
std::vector<AttentionModel> attention_models() {
  return {{"9/3x64", {9, 3, 64, 64, 0.125F}},
          {"4/1x256", {4, 1, 256, 256, 0.0625F}},
          {"32/8x64", {32, 8, 64, 64, 0.125F}},
          {"32/8x128", {32, 8, 128, 128, 0.0883883F}}};
}

struct Plan {
  bool products = false, attention = false, rows_alone = false;
  std::vector<WeightType> types;
  std::vector<MatrixShape> shapes;
  std::vector<std::uint32_t> row_counts;
  std::uint32_t depth = 0;
  model::KernelBenchOptions options;
};

Error bad_value(std::string_view flag, std::string_view value, const std::string& wanted) {
  return Error{Code::kInvalidArgument, str_cat(flag, ": `", to_valid_utf8(value), "` is none"),
               str_cat("write ", wanted), std::string(flag)};
}

std::string lower(std::string_view text) {
  std::string made(text);
  for (char& c : made) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return made;
}

Result<std::vector<WeightType>> parse_types(const std::string& text) {
  if (text == "all") return std::vector<WeightType>(kTypes.begin(), kTypes.end());
  std::vector<WeightType> types;
  for (const std::string_view part : split(text, ',')) {
    const auto* const found = std::find_if(kTypes.begin(), kTypes.end(), [&](WeightType type) {
      return lower(model::type_name(type)) == lower(trim(part));
    });
    if (found == kTypes.end() || types.size() >= kTypes.size()) {
      return bad_value("--types", part, "all, or types with commas, e.g. --types q4_0,q4_K,f16");
    }
    types.push_back(*found);
  }
  return types;
}

Result<std::vector<MatrixShape>> parse_shapes(const std::string& text) {
  const auto bad = [](std::string_view part) {
    return bad_value(
        "--shapes", part,
        "columns x outputs, multiples of 32 up to 65536, e.g. --shapes 576x1536,2048x2048");
  };
  std::vector<MatrixShape> shapes;
  for (const std::string_view part : split(text, ',')) {
    const auto sides = split(trim(part), 'x');
    if (sides.size() != 2 || shapes.size() >= 64) return bad(part);
    std::array<std::uint32_t, 2> numbers{};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto number = parse_token_counts(std::string(sides[i]), "--shapes", 32, 65536);
      if (!number.ok() || number->front() % kernels::kGroup != 0) return bad(part);
      numbers[i] = number->front();
    }
    shapes.push_back({numbers[0], numbers[1]});
  }
  return shapes;
}

Result<void> parse_parts(const std::string& text, Plan& plan) {
  for (const std::string_view part : split(text, ',')) {
    if (trim(part) == "products") {
      plan.products = true;
    } else if (trim(part) == "attention") {
      plan.attention = true;
    } else if (trim(part) == "rows") {
      plan.rows_alone = true;
    } else {
      return bad_value("--parts", part, "products, attention, rows, with commas");
    }
  }
  return {};
}

Result<Plan> make_plan(const Settings& settings) {
  Plan plan;
  RETURN_IF_ERROR(parse_parts(settings.text("--parts"), plan));
  ASSIGN_OR_RETURN(plan.types, parse_types(settings.text("--types")));
  ASSIGN_OR_RETURN(plan.shapes, parse_shapes(settings.text("--shapes")));
  ASSIGN_OR_RETURN(plan.row_counts, parse_token_counts(settings.text("--rows"), "--rows", 1, 8192));
  plan.depth = static_cast<std::uint32_t>(settings.integer("--attention-depth"));
  ASSIGN_OR_RETURN(plan.options.set, instruction_set(settings));
  const auto threads = static_cast<std::uint32_t>(settings.integer("--threads"));
  plan.options.thread_count = model::compute_thread_count(threads);
  // One is what the other benches repeat; kernels are short.
  plan.options.repetitions = settings.is_set("--repetitions")
                                 ? static_cast<std::uint32_t>(settings.integer("--repetitions"))
                                 : 5;
  return plan;
}

// Writes each figure as it comes, or all of them as JSON at the end.
class Report {
 public:
  Report(const Plan& plan, bool as_json, Console& console)
      : plan_(plan), as_json_(as_json), console_(console) {}

  void begin(const model::MachinePeaks& peaks) {
    const double threads = plan_.options.thread_count;
    json_ = {{"kernels", kernels::name_of(plan_.options.set)},
             {"ggml", model::ggml_instruction_set()},
             {"threads", plan_.options.thread_count},
             {"repetitions", plan_.options.repetitions},
             {"peaks",
              {{"int8_gop_per_s", peaks.int8_gop_per_s},
               {"int8_gop_per_s_per_thread", peaks.int8_gop_per_s / threads},
               {"fp32_gop_per_s", peaks.float_gop_per_s},
               {"fp32_gop_per_s_per_thread", peaks.float_gop_per_s / threads},
               {"read_gb_per_s", peaks.read_gb_per_s}}},
             {"results", nlohmann::ordered_json::array()}};
    if (as_json_) return;
    std::array<char, 256> line{};
    std::snprintf(line.data(), line.size(),
                  "%s kernels, %u threads, median of %u; ggml built for %s\n"
                  "peaks: int8 %.0f GOP/s, fp32 %.0f GOP/s (%.0f and %.0f a thread), "
                  "read %.1f GB/s\n",
                  std::string(kernels::name_of(plan_.options.set)).c_str(),
                  plan_.options.thread_count, plan_.options.repetitions,
                  model::ggml_instruction_set().c_str(), peaks.int8_gop_per_s,
                  peaks.float_gop_per_s, peaks.int8_gop_per_s / threads,
                  peaks.float_gop_per_s / threads, peaks.read_gb_per_s);
    console_.out(line.data());
    console_.out(
        "kernel            type  shape            rows         us    GOP/s    GB/s  bound  share"
        "  x ggml\n");
  }

  void add(const model::KernelFigure& f) {
    nlohmann::ordered_json row = {
        {"kernel", f.kernel},     {"type", f.type},        {"shape", f.shape},
        {"rows", f.rows},         {"us", 1e6 * f.seconds}, {"gop_per_s", f.gop_per_s},
        {"gb_per_s", f.gb_per_s}, {"bound", f.bound},      {"share_of_peak", f.share_of_peak}};
    const bool compared = f.ggml_seconds > 0.0;
    if (compared) {
      row["ggml_us"] = 1e6 * f.ggml_seconds;
      row["ratio_to_ggml"] = f.ratio_to_ggml();
      row["difference_from_ggml"] = f.difference;
    }
    json_["results"].push_back(std::move(row));
    if (as_json_) return;
    std::array<char, 160> line{};
    const int length = std::snprintf(
        line.data(), line.size(), "%-17s %-5s %-16s %4u %10.1f %8.1f %7.1f  %-5s %5.1f%%",
        f.kernel.c_str(), f.type.c_str(), f.shape.c_str(), f.rows, 1e6 * f.seconds, f.gop_per_s,
        f.gb_per_s, f.bound.c_str(), 100.0 * f.share_of_peak);
    std::string text(line.data(), static_cast<std::size_t>(length));
    if (compared) {
      std::snprintf(line.data(), line.size(), " %7.2f", f.ratio_to_ggml());
      text += line.data();
    }
    console_.out(text + "\n");
  }

  void end() {
    if (as_json_) console_.out(json_.dump(2) + "\n");
  }

 private:
  const Plan& plan_;
  const bool as_json_;
  Console& console_;
  nlohmann::ordered_json json_;
};

Result<void> bench_products(const Plan& plan, model::KernelBench& bench, Report& report,
                            Console& console) {
  const auto total =
      static_cast<double>(plan.types.size() * plan.shapes.size() * plan.row_counts.size());
  double done = 0.0;
  for (const WeightType type : plan.types) {
    for (const MatrixShape& shape : plan.shapes) {
      for (const std::uint32_t rows : plan.row_counts) {
        console.progress(str_cat("product ", model::type_name(type), " ", shape.columns, "x",
                                 shape.outputs, ", ", rows, " rows"),
                         done++ / total);
        // No file has such a matrix in that type.
        if (shape.columns % kernels::block_weights(type) != 0) continue;
        ASSIGN_OR_RETURN(const model::KernelFigure figure,
                         bench.product({type, shape.columns, shape.outputs, rows}));
        report.add(figure);
      }
    }
  }
  return {};
}

void bench_attention(const Plan& plan, model::KernelBench& bench, Report& report,
                     Console& console) {
  const std::vector<AttentionModel> models = attention_models();
  const auto total =
      static_cast<double>(models.size() * kernels::kKvFormatCount * plan.row_counts.size());
  double done = 0.0;
  for (const AttentionModel& model : models) {
    for (const kernels::KvFormatInfo& info : kernels::kv_formats()) {
      for (const std::uint32_t rows : plan.row_counts) {
        console.progress(str_cat("attention ", model.label), done++ / total);
        report.add(bench.attention(model.label, model.shape, info.format, plan.depth, rows));
      }
    }
  }
}

void bench_rows(const Plan& plan, model::KernelBench& bench, Report& report, Console& console) {
  std::vector<std::uint32_t> dims;
  dims.reserve(plan.shapes.size());
  for (const MatrixShape& shape : plan.shapes) dims.push_back(shape.columns);
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  const std::uint32_t rows = *std::max_element(plan.row_counts.begin(), plan.row_counts.end());
  for (const auto operation : {model::RowOperation::kQuantizeRow, model::RowOperation::kRmsNorm,
                               model::RowOperation::kGlu}) {
    for (const std::uint32_t dim : dims) {
      console.progress("row operations", 0);
      report.add(bench.row_operation(operation, dim, rows));
    }
  }
}

Result<void> bench_kernels(const Settings& settings, Console& console) {
  ASSIGN_OR_RETURN(const Plan plan, make_plan(settings));
  Report report(plan, settings.boolean("--json"), console);
  console.progress("measuring the machine's peaks", 0);
  ASSIGN_OR_RETURN(const auto bench, model::KernelBench::create(plan.options));
  report.begin(bench->peaks());
  if (plan.products) RETURN_IF_ERROR(bench_products(plan, *bench, report, console));
  if (plan.attention) bench_attention(plan, *bench, report, console);
  if (plan.rows_alone) bench_rows(plan, *bench, report, console);
  report.end();
  return {};
}

}  // namespace

Exit run_bench_kernels(const Settings& settings, Console& console) {
  const Result<void> result = bench_kernels(settings, console);
  console.end_progress();
  return result.ok() ? Exit::kOk : fail(result.error(), console);
}

}  // namespace refrain::cli
