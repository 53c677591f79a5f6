// The planner against values worked out by hand for published model shapes (B1, B2): what the
// arena stores for a token and a context, what decoding reads of it, how many sequences fit.
#include "capacity/planner.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "capacity/model_ledger.h"

namespace refrain::capacity {
namespace {

using kernels::KvFormat;

constexpr std::uint64_t kGiB = 1ULL << 30U;

// A row of the table: the numbers of a model's card, and by hand what follows from them.
struct Published {
  std::string name;
  std::uint32_t layers, heads, kv_heads, head_dim;
  std::uint32_t window, global_period;
  std::uint64_t parameters;
  std::uint32_t context;
  // 2 x layers x kv_heads x head_dim x 2
  std::uint64_t f16_per_token;
  // layers x kv_heads x (2 x head_dim + 8): a byte a value, a float scale for each key and value
  // row
  std::uint64_t q8_per_token;
  std::uint64_t f16_per_sequence;  // x context
  std::uint64_t f16_read_at_full;  // the same, but windowed layers read the window
  std::uint64_t budget;            // bytes of context
  std::uint64_t f16_sequences;     // budget / f16_per_sequence, rounded down
};

const std::vector<Published>& published() {
  static const std::vector<Published> kTable = {
      // multi-head: every query head has its own keys and values
      {"Llama-2-7B", 32, 32, 32, 128, 0, 0, 6'738'415'616, 4096, 524'288, 270'336, 2 * kGiB,
       2 * kGiB, 56 * kGiB, 28},
      // grouped-query
      {"Llama-3.1-8B", 32, 32, 8, 128, 0, 0, 8'030'261'248, 131'072, 131'072, 67'584, 16 * kGiB,
       16 * kGiB, 56 * kGiB, 3},
      {"Llama-3.1-70B", 80, 64, 8, 128, 0, 0, 70'553'706'496, 131'072, 327'680, 168'960, 40 * kGiB,
       40 * kGiB, 168 * kGiB, 4},
      {"Qwen2.5-3B", 36, 16, 2, 128, 0, 0, 3'085'938'688, 32'768, 36'864, 19'008, 1'207'959'552,
       1'207'959'552, 8 * kGiB, 7},
      {"SmolLM2-135M", 30, 9, 3, 64, 0, 0, 134'515'008, 8192, 23'040, 12'240, 188'743'680,
       188'743'680, 4 * kGiB, 22},
      // every layer reads its window of 4,096, and the arena keeps all 32,768
      {"Mistral-7B-v0.1", 32, 32, 8, 128, 4096, 0, 7'241'732'096, 32'768, 131'072, 67'584, 4 * kGiB,
       kGiB / 2, 56 * kGiB, 14},
      // one multi-query head; 15 of 18 layers read 512 tokens: 3 x 1,024 x 32,768 + 15 x 1,024 x
      // 512
      {"Gemma-3-270M", 18, 4, 1, 256, 512, 6, 268'098'176, 32'768, 18'432, 9'360, 603'979'776,
       108'527'616, 4 * kGiB, 7},
  };
  return kTable;
}

PlanInput input_of(const Published& model, KvFormat format = KvFormat::kF16) {
  PlanInput input;
  input.shape.layer_count = model.layers;
  input.shape.head_count = model.heads;
  input.shape.kv_head_count = model.kv_heads;
  input.shape.key_dim = input.shape.value_dim = model.head_dim;
  input.shape.sliding_window = model.window;
  input.shape.global_layer_period = model.global_period;
  input.shape.parameter_count = model.parameters;
  input.shape.weight_bytes = 2 * model.parameters;  // F16
  input.format = format;
  input.context_tokens = model.context;
  input.kv_budget_bytes = model.budget;
  return input;
}

TEST(Planner, published_shapes_give_what_is_worked_out_by_hand_B1) {
  for (const Published& model : published()) {
    SCOPED_TRACE(model.name);
    const auto plan = make_plan(input_of(model));
    ASSERT_TRUE(plan.ok());
    const FourLedgers& ledgers = plan->chosen.ledgers;
    EXPECT_EQ(ledgers.kv_bytes_per_token, model.f16_per_token);
    EXPECT_EQ(ledgers.kv_bytes_per_sequence, model.f16_per_sequence);
    EXPECT_EQ(plan->chosen.kv_read_bytes, model.f16_read_at_full);
    EXPECT_EQ(ledgers.decode_read_bytes_empty, 2 * model.parameters);
    EXPECT_EQ(ledgers.decode_read_bytes_full, 2 * model.parameters + model.f16_read_at_full);
    EXPECT_EQ(ledgers.prefill_flop, 2.0 * static_cast<double>(model.parameters) * model.context);
    EXPECT_EQ(ledgers.sequences, model.f16_sequences);
    EXPECT_DOUBLE_EQ(ledgers.kv_share_of_weights,
                     static_cast<double>(model.f16_per_sequence) /
                         (2.0 * static_cast<double>(model.parameters)));
    EXPECT_EQ(make_plan(input_of(model, KvFormat::kQ8))->chosen.ledgers.kv_bytes_per_token,
              model.q8_per_token);
  }
}

TEST(Planner, every_format_there_is_has_its_row_and_the_chosen_one_is_among_them_B2) {
  for (const Published& model : published()) {
    for (const kernels::KvFormatInfo& info : kernels::kv_formats()) {
      const auto plan = make_plan(input_of(model, info.format));
      ASSERT_TRUE(plan.ok());
      ASSERT_EQ(plan->formats.size(), kernels::kv_formats().size());
      EXPECT_EQ(plan->chosen.format, info.format);
      for (const FormatPlan& row : plan->formats) {
        EXPECT_EQ(row.ledgers.kv_bytes_per_token,
                  model::kv_bytes_per_token(plan->input.shape, row.format));
        EXPECT_GE(row.ledgers.sequences * row.ledgers.kv_bytes_per_sequence + 1, 1U);
        EXPECT_LE(row.ledgers.sequences * row.ledgers.kv_bytes_per_sequence, model.budget);
      }
    }
  }
}

TEST(Planner, the_example_everybody_quotes_gives_14_and_56_B2) {
  PlanInput input;
  input.shape.layer_count = 32;
  input.shape.kv_head_count = 32;
  input.shape.key_dim = input.shape.value_dim = 128;
  input.shape.parameter_count = 7'000'000'000;
  input.shape.weight_bytes = 14 * kGiB;
  input.activation_bytes = 10 * kGiB;
  input.kv_budget_bytes = (80 - 14 - 10) * kGiB;
  input.context_tokens = 8192;
  const auto full = make_plan(input);
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->chosen.ledgers.sequences, 14U);
  const std::string said = describe(full->ledger, full->chosen.ledgers);
  EXPECT_NE(said.find("14 sequences of 8192 tokens fit"), std::string::npos) << said;
  EXPECT_NE(said.find("in 80 GiB"), std::string::npos) << said;
  input.shape.kv_head_count = 8;
  EXPECT_EQ(make_plan(input)->chosen.ledgers.sequences, 56U);
}

TEST(Planner, a_sequence_takes_whole_blocks_B2) {
  PlanInput input = input_of(published()[4]);
  input.context_tokens = 100;                            // 7 blocks of 16
  input.kv_budget_bytes = 20ULL * 16 * 23'040 + 23'039;  // 20 blocks and not quite another
  const auto plan = make_plan(input);
  EXPECT_EQ(plan->chosen.block_count, 20U);
  EXPECT_EQ(plan->chosen.ledgers.sequences, 2U);
  input.block_size = 256;
  EXPECT_EQ(make_plan(input)->chosen.block_count, 1U);
  EXPECT_EQ(make_plan(input)->chosen.ledgers.sequences, 1U);
  input.kv_budget_bytes = 0;
  EXPECT_EQ(make_plan(input)->chosen.ledgers.sequences, 0U);
  input.kv_budget_bytes.reset();
  EXPECT_EQ(make_plan(input)->ledger.memory_bytes, 0U) << "unknown, not zero";
}

TEST(Planner, times_follow_from_bytes_and_operations_B2) {
  PlanInput input = input_of(published()[4]);  // SmolLM2
  EXPECT_EQ(make_plan(input)->chosen.tpot_full_s, 0) << "unknown without a bandwidth";
  EXPECT_EQ(make_plan(input)->prefill_s, 0);
  input.speed = {.read_bytes_per_s = 27e9, .flop_per_s = 1e12};
  auto plan = make_plan(input);
  EXPECT_DOUBLE_EQ(plan->chosen.tpot_empty_s, 269'030'016 / 27e9);
  EXPECT_DOUBLE_EQ(plan->chosen.tpot_full_s, (269'030'016 + 188'743'680) / 27e9);
  // 30 layers x 9 heads x 2 x (64 + 64) x 8192 x 8193 / 2
  EXPECT_DOUBLE_EQ(plan->chosen.ledgers.attention_flop, 2'319'565'455'360.0);
  const double products = 2.0 * 134'515'008 * 8192;
  EXPECT_DOUBLE_EQ(plan->prefill_s, (products + 2'319'565'455'360.0) / 1e12);
  input.speed.attention_flop_per_s = 2e11;
  EXPECT_DOUBLE_EQ(make_plan(input)->prefill_s, products / 1e12 + 2'319'565'455'360.0 / 2e11);
  // With a vocabulary, only the layers' matrices are multiplied with every token.
  input.shape.embedding_dim = 576;
  input.shape.vocabulary_size = 49'152;
  input.shape.tied_output = true;
  input.speed.attention_flop_per_s = 0;
  EXPECT_DOUBLE_EQ(make_plan(input)->prefill_s,
                   (2.0 * (134'515'008 - 28'311'552) * 8192 + 2'319'565'455'360.0) / 1e12);
}

TEST(Planner, windows_cap_what_is_read_and_computed_but_not_what_is_kept_B1) {
  PlanInput input = input_of(published()[6]);  // Gemma 3 270M
  const LedgerInput ledger = make_plan(input)->ledger;
  const ReadCost cost = read_cost(ledger);
  EXPECT_EQ(cost.kv_bytes(0), 0U);
  EXPECT_EQ(cost.kv_bytes(512), 512U * 18'432);  // inside the window all layers read all
  EXPECT_EQ(cost.kv_bytes(513), 513U * 18'432 - 15U * 1024);
  // 4 heads x 2 x 512 dims; 4 tokens are 10 pairs in each layer.
  EXPECT_DOUBLE_EQ(attention_flop(ledger, 4), 4 * 2.0 * 512 * 18 * 10);
  // 514 tokens: 3 layers with 514 x 515 / 2 pairs, 15 with 512 x 513 / 2 + 2 x 512.
  EXPECT_DOUBLE_EQ(attention_flop(ledger, 514),
                   4 * 2.0 * 512 * (3 * 132'355.0 + 15 * (131'328.0 + 1024)));
  input.shape.sliding_window = 0;
  EXPECT_EQ(make_plan(input)->chosen.kv_read_bytes, 603'979'776U);
}

TEST(Planner, a_dialogue_grows_by_its_rounds_B2) {
  PlanInput input = input_of(published()[4]);
  EXPECT_FALSE(make_plan(input)->dialogue.has_value());
  input.round_tokens = 500;
  const auto plan = make_plan(input);
  ASSERT_TRUE(plan->dialogue.has_value());
  EXPECT_EQ(plan->dialogue->kv_bytes, 11'520'000U);
  EXPECT_EQ(plan->dialogue->rounds, 16U);
  EXPECT_DOUBLE_EQ(plan->dialogue->share_of_weights, 11'520'000.0 / 269'030'016.0);
  EXPECT_EQ(plan->dialogue->computed_with_reuse, 8'000);
  EXPECT_EQ(plan->dialogue->computed_without, 68'000);  // 500 x (1 + 2 + .. + 16)
}

TEST(Planner, more_than_can_be_counted_is_refused_and_not_wrapped_around_B2) {
  PlanInput input = input_of(published()[2]);
  input.shape.layer_count = 10'000;
  input.shape.kv_head_count = 65'536;
  input.shape.head_count = 65'536;
  input.shape.key_dim = input.shape.value_dim = 1024;
  input.context_tokens = 1'000'000'000;
  const auto plan = make_plan(input);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().field, "--context");
  EXPECT_FALSE(plan.error().hint.empty());
}

TEST(ModelLedger, an_embedding_that_is_no_output_matrix_is_not_read_B1) {
  model::ModelShape shape;
  shape.layer_count = shape.kv_head_count = shape.head_count = 1;
  shape.key_dim = shape.value_dim = 16;
  shape.weight_bytes = 1000;
  shape.embedding_bytes = 300;
  EXPECT_EQ(read_cost(ledger_input(shape, KvFormat::kF16)).weight_bytes, 700U);
  shape.tied_output = true;
  EXPECT_EQ(read_cost(ledger_input(shape, KvFormat::kF16)).weight_bytes, 1000U);
}

}  // namespace
}  // namespace refrain::capacity
