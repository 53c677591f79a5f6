// The four ledgers against values worked out by hand (B1, B2).
#include "capacity/ledgers.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace refrain::capacity {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30U;

// The example everybody quotes: 80 GB card, 7B in FP16 (14 GB), 10 GB reserve, 8K context.
LedgerInput seven_b(std::uint32_t kv_head_count) {
  return LedgerInput{.parameter_count = 7'000'000'000,
                     .weight_bytes = 14 * kGiB,
                     .layer_count = 32,
                     .kv_head_count = kv_head_count,
                     .key_dim = 128,
                     .value_dim = 128,
                     .kv_bytes_per_value = 2.0,
                     .memory_bytes = 80 * kGiB,
                     .activation_bytes = 10 * kGiB,
                     .context_tokens = 8192};
}

TEST(FourLedgers, SevenBillionWithFullAttentionFitsFourteenTimes) {  // B1, B2
  const FourLedgers ledgers = compute_ledgers(seven_b(32));
  EXPECT_EQ(ledgers.kv_bytes_per_token, 524'288U);     // 2 x 32 x 32 x 128 x 2 = 512 KiB
  EXPECT_EQ(ledgers.kv_bytes_per_sequence, 4 * kGiB);  // x 8192
  EXPECT_EQ(ledgers.sequences, 14U);                   // (80 - 14 - 10) / 4
  EXPECT_DOUBLE_EQ(ledgers.kv_share_of_weights, 4.0 / 14.0);
  EXPECT_EQ(ledgers.decode_read_bytes_empty, 14 * kGiB);
  EXPECT_EQ(ledgers.decode_read_bytes_full, 18 * kGiB);
  EXPECT_DOUBLE_EQ(ledgers.prefill_flop, 1.14688e14);  // 2 x 7e9 x 8192
}

TEST(FourLedgers, WithEightKvHeadsItFitsFiftySixTimes) {  // B2
  const FourLedgers ledgers = compute_ledgers(seven_b(8));
  EXPECT_EQ(ledgers.kv_bytes_per_token, 131'072U);
  EXPECT_EQ(ledgers.kv_bytes_per_sequence, kGiB);
  EXPECT_EQ(ledgers.sequences, 56U);
}

TEST(FourLedgers, ASmallModelIsCountedToTheByte) {
  // SmolLM2-135M: 30 layers, 3 KV heads of 64 dims: 2 x 30 x 3 x 64 x 2 = 23,040 bytes.
  const FourLedgers ledgers = compute_ledgers({.parameter_count = 134'515'008,
                                               .weight_bytes = 90'000'000,
                                               .layer_count = 30,
                                               .kv_head_count = 3,
                                               .key_dim = 64,
                                               .value_dim = 64,
                                               .memory_bytes = 100'000'000,
                                               .activation_bytes = 1'000'000,
                                               .context_tokens = 100});
  EXPECT_EQ(ledgers.kv_bytes_per_token, 23'040U);
  EXPECT_EQ(ledgers.kv_bytes_per_sequence, 2'304'000U);
  EXPECT_EQ(ledgers.sequences, 3U);  // 9,000,000 / 2,304,000
}

TEST(FourLedgers, KeysAndValuesOfDifferentSizeAndHalfByteFormatsAreCounted) {
  LedgerInput input = seven_b(1);
  input.key_dim = 192;
  EXPECT_EQ(compute_ledgers(input).kv_bytes_per_token, 32U * 320U * 2U);
  input.kv_bytes_per_value = 0.5625;  // 4 bits and a scale per 32 values
  EXPECT_EQ(compute_ledgers(input).kv_bytes_per_token, 5'760U);
  input.kv_bytes_per_token = 6'000;  // as the arena counts scales and padding
  EXPECT_EQ(compute_ledgers(input).kv_bytes_per_token, 6'000U);
  EXPECT_EQ(compute_ledgers(input).kv_bytes_per_sequence, 6'000U * 8192U);
}

TEST(FourLedgers, WhereWeightsOrActivationsDoNotFitNoSequenceDoes) {
  LedgerInput input = seven_b(8);
  input.memory_bytes = 14 * kGiB;
  EXPECT_EQ(compute_ledgers(input).sequences, 0U);
  input.memory_bytes = 20 * kGiB;
  EXPECT_EQ(compute_ledgers(input).sequences, 0U);
  input.memory_bytes = 25 * kGiB;
  EXPECT_EQ(compute_ledgers(input).sequences, 1U);
}

TEST(FourLedgers, ContextWhoseAttentionTakesAsLongAsTheRestOfARow) {  // B6
  LedgerInput input = seven_b(8);
  EXPECT_EQ(attention_unit_tokens(input), 0) << "query heads are unknown";
  input.head_count = 32;
  // 2 x 7e9 FLOP a row; 2 x 32 heads x 256 x 32 layers for each token in front, half as slow again.
  EXPECT_NEAR(attention_unit_tokens(input), 14e9 / (1.5 * 524'288), 1e-6);
  input.windowed_layer_count = 16;  // the same for every row
  EXPECT_NEAR(attention_unit_tokens(input), 14e9 / (1.5 * 262'144), 1e-6);
  input.windowed_layer_count = 32;
  EXPECT_EQ(attention_unit_tokens(input), 0);
}

TEST(FourLedgers, NothingKnownGivesZerosAndNoDivisionByZero) {
  const FourLedgers ledgers = compute_ledgers({});
  EXPECT_EQ(ledgers.sequences, 0U);
  EXPECT_EQ(ledgers.kv_share_of_weights, 0.0);
  EXPECT_EQ(ledgers.prefill_flop, 0.0);
  EXPECT_FALSE(describe({}, ledgers).empty());
}

TEST(FourLedgers, TheDescriptionHasOneLinePerLedgerWithItsNumbers) {
  LedgerInput input = seven_b(32);
  const std::string without = describe(input, compute_ledgers(input));
  EXPECT_EQ(std::count(without.begin(), without.end(), '\n'), 4);
  EXPECT_EQ(without.find("tokens/s"), std::string::npos) << "no speed without a bandwidth";
  input.read_bandwidth_bytes_per_s = 1400.0 * static_cast<double>(kGiB);
  const std::string text = describe(input, compute_ledgers(input));
  EXPECT_NE(text.find("concurrency  14 sequences of 8192 tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("28.6 % of the weights"), std::string::npos) << text;
  EXPECT_NE(text.find("reading alone allows 100 and 77.8 tokens/s"), std::string::npos) << text;
  EXPECT_NE(text.find("115 TFLOP to prefill 8192 tokens"), std::string::npos) << text;
}

}  // namespace
}  // namespace refrain::capacity
