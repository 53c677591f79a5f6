// Paged attention against a plain double-precision softmax, and against itself under other cuts,
// thread counts, task orders, block sizes and block orders, where not a bit may change
// (REQUIREMENTS A1).
#include "kernels/paged_attention.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>

#include "support/attention_problem.h"

namespace refrain::kernels {
namespace {

constexpr KvFormat kFormats[] = {KvFormat::kF16, KvFormat::kQ8, KvFormat::kQ8Q4, KvFormat::kQ4};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<AttentionShape> shapes() {
  return {
      {9, 3, 64, 64, 0.125F},         {4, 1, 256, 256, 0.0625F, 100}, {4, 2, 16, 16, 0.25F, 32},
      {6, 2, 80, 48, 0.11F, 0, 5.0F}, {5, 5, 20, 36, 0.2F, 300},      {8, 1, 128, 128, 0.09F, 1},
      {3, 3, 7, 9, 0.4F, 0, 50.0F},   {28, 1, 8, 8, 0.35F, 17},       {2, 1, 129, 33, 0.1F}};
}

void expect_near_plain(const AttentionProblem& p, const PagedArena& arena,
                       const std::vector<float>& output, std::uint32_t position,
                       std::string_view where) {
  for (std::uint32_t head = 0; head < p.shape.head_count; ++head) {
    const std::vector<Expected> expected = PlainAttention(p, arena, position, head).all();
    for (std::uint32_t d = 0; d < p.shape.value_dim; ++d) {
      const float found = output[position * p.output_row() + head * p.shape.value_dim + d];
      ASSERT_LE(std::fabs(found - expected[d].value), expected[d].bound)
          << where << " position " << position << " head " << head << " dim " << d << ": " << found
          << " instead of " << expected[d].value;
    }
  }
}

TEST(PagedAttention, EveryInstructionSetIsWithinTheBoundOfAPlainSoftmax) {
  for (const KvFormat format : kFormats) {
    for (const AttentionShape& shape : shapes()) {
      const AttentionProblem p = AttentionProblem::random(shape, 531, 11);
      const PagedArena arena(p, format, 16, 5);
      for (const InstructionSet set : available_instruction_sets()) {
        const std::vector<float> output = attend(p, arena, 0, p.length, {.set = set});
        for (const std::uint32_t position : {0U, 1U, 31U, 255U, 256U, 257U, 511U, 530U}) {
          expect_near_plain(p, arena, output, position, name_of(set));
        }
      }
    }
  }
}

// The bounds allow for rounding errors that all point one way; those of random rows do not.
TEST(PagedAttention, RandomRowsAreMuchCloserThanTheBound) {
  for (const KvFormat format : kFormats) {
    const AttentionProblem p = AttentionProblem::random({9, 3, 64, 64, 0.125F}, 900, 19);
    const PagedArena arena(p, format, 16, 5);
    for (const InstructionSet set : available_instruction_sets()) {
      const std::vector<float> output = attend(p, arena, 890, 900, {.set = set});
      double error = 0.0, size = 0.0;
      for (std::uint32_t head = 0; head < 9; ++head) {
        const std::vector<Expected> expected = PlainAttention(p, arena, 899, head).all();
        for (std::uint32_t d = 0; d < 64; ++d) {
          const double found = output[9 * p.output_row() + head * 64 + d];
          error += (found - expected[d].value) * (found - expected[d].value);
          size += expected[d].value * expected[d].value;
        }
      }
      EXPECT_LE(std::sqrt(error / size), format == KvFormat::kF16 ? 1e-6 : 1e-2) << name_of(set);
    }
  }
}

TEST(PagedAttention, RandomShapesAreWithinTheBound) {
  Rng rng(77);
  for (int round = 0; round < 24; ++round) {
    const auto kv_heads = static_cast<std::uint32_t>(1 + rng.below(4));
    const auto group = static_cast<std::uint32_t>(1 + rng.below(9));
    const auto dim = [&] { return static_cast<std::uint32_t>(1 + rng.below(256)); };
    AttentionShape shape{kv_heads * group, kv_heads, dim(), dim()};
    shape.scale = 2.0F / std::sqrt(static_cast<float>(shape.key_dim));
    if (rng.below(2) == 0) shape.window = static_cast<std::uint32_t>(1 + rng.below(400));
    const auto length = static_cast<std::uint32_t>(1 + rng.below(513));
    const AttentionProblem p = AttentionProblem::random(shape, length, rng.next());
    const KvFormat format = kFormats[rng.below(4)];
    const PagedArena arena(p, format, 16U << rng.below(3), rng.next());
    const std::vector<InstructionSet> sets = available_instruction_sets();
    const InstructionSet set = sets[rng.below(sets.size())];
    const std::vector<float> output = attend(p, arena, 0, length, {.set = set});
    for (int i = 0; i < 4; ++i) {
      const auto position = static_cast<std::uint32_t>(rng.below(length));
      expect_near_plain(p, arena, output, position, name_of(set));
    }
  }
}

// Those whose numerics have the same name; all but f16 have one name.
TEST(PagedAttention, InstructionSetsWithTheSameNumericsAreEqualBitForBit) {
  for (const KvFormat format : kFormats) {
    for (const AttentionShape& shape : shapes()) {
      const AttentionProblem p = AttentionProblem::random(shape, 300, 13);
      const PagedArena arena(p, format, 32, 2);
      std::map<std::string, std::vector<float>> outputs;
      for (const InstructionSet set : available_instruction_sets()) {
        const std::vector<float> output = attend(p, arena, 0, 300, {.set = set});
        const auto& [numerics, first] =
            *outputs.emplace(attention_numerics(format, set), output).first;
        EXPECT_EQ(output, first) << numerics << ", " << name_of(set) << ", key dim "
                                 << shape.key_dim;
      }
      EXPECT_LE(outputs.size(), format == KvFormat::kF16 ? 2U : 1U);
    }
  }
}

void expect_same_rows(const AttentionProblem& p, const std::vector<float>& part,
                      const std::vector<float>& whole, std::uint32_t from, std::string_view where) {
  EXPECT_EQ(
      std::memcmp(part.data(), whole.data() + from * p.output_row(), part.size() * sizeof(float)),
      0)
      << where << ", rows from " << from << " on, key dim " << p.shape.key_dim;
}

TEST(PagedAttention, NeitherCutsNorBlocksNorThreadsNorTaskOrderChangeABit) {
  for (const KvFormat format : kFormats) {
    for (const InstructionSet set : available_instruction_sets()) {
      for (const AttentionShape& shape : shapes()) {
        const AttentionProblem p = AttentionProblem::random(shape, 700, 23);
        const std::vector<float> whole =
            attend(p, PagedArena(p, format, 16, 1), 0, p.length, {.set = set});
        std::uint64_t seed = 2;
        for (const std::uint32_t block_size : {16U, 32U, 64U}) {
          const PagedArena arena(p, format, block_size, ++seed);
          Rng rng(seed);
          for (std::uint32_t from = 0; from < p.length;) {
            const auto step = static_cast<std::uint32_t>(1 + rng.next() % 130);
            const std::uint32_t to = std::min(p.length, from + (rng.next() % 3 == 0 ? 1U : step));
            const RunOptions options{.thread_count = static_cast<std::uint32_t>(1 + rng.below(5)),
                                     .set = set,
                                     .task_order_seed = rng.next()};
            expect_same_rows(p, attend(p, arena, from, to, options), whole, from, name_of(set));
            from = to;
          }
        }
      }
    }
  }
}

TEST(PagedAttention, SeveralSequencesInOneBatchDoNotMeet) {
  for (const KvFormat format : kFormats) {
    const AttentionShape shape{6, 2, 40, 24, 0.2F};
    std::vector<AttentionProblem> problems;
    std::vector<float> query, expected;
    std::vector<Position> positions;
    std::vector<AttentionSequence> sequences;
    const PagedArena* arenas[3];
    // Three sequences with arenas of their own, joined by tables into one.
    const std::uint32_t lengths[] = {1900, 90, 301}, counts[] = {1, 90, 33};
    std::vector<PagedArena> all;
    all.reserve(3);
    for (int i = 0; i < 3; ++i) {
      problems.push_back(AttentionProblem::random(shape, lengths[i], 50 + i));
      all.emplace_back(problems[i], format, 16, 7 + i);
      arenas[i] = &all[i];
    }
    std::size_t blocks = 0;
    for (const PagedArena* arena : arenas) blocks += arena->layout.tile_count;
    const KvLayout joined = make_kv_layout(format, 2, 40, 24, blocks);
    std::vector<std::byte> bytes(joined.layer_bytes, std::byte{0xFF});
    std::vector<std::vector<BlockId>> tables(3);
    std::vector<Remainders> remainders;
    std::vector<RemainderRow> seen;
    std::uint32_t next = 0;
    for (int i = 0; i < 3; ++i) {
      const AttentionProblem& p = problems[i];
      std::vector<std::int64_t> slots;
      for (std::uint32_t t = 0; t < p.length; ++t) {
        if (t % 16 == 0) tables[i].push_back(BlockId{next++});
        slots.push_back(std::int64_t{next - 1} * 16 + t % 16);
      }
      remainders.emplace_back(joined, p.length);
      cpu_kernels(best_instruction_set())
          .store_kv_rows(joined, bytes.data(), 0, slots.data(), p.length, p.keys.data(),
                         p.values.data(), remainders.back().rows.data());
      const std::uint32_t from = lengths[i] - counts[i];
      sequences.push_back(
          {tables[i].data(), static_cast<std::uint32_t>(positions.size()), counts[i]});
      for (std::uint32_t t = from; t < lengths[i]; ++t) {
        positions.push_back(static_cast<Position>(t));
        remainders.back().append_seen(t, seen);
      }
      query.insert(query.end(), p.query.begin() + static_cast<std::ptrdiff_t>(from * p.query_row()),
                   p.query.end());
      const std::vector<float> alone = attend(p, *arenas[i], from, lengths[i]);
      expected.insert(expected.end(), alone.begin(), alone.end());
    }
    AttentionPlan plan;
    plan_attention(sequences, positions.data(), shape, 16, plan);
    EXPECT_FALSE(plan.shares.empty()) << "the long decode is shared";
    std::vector<float> output(expected.size()), scratch(attention_scratch_floats(shape));
    AttentionCall call;
    call.shape = shape;
    call.layout = joined;
    call.kv = bytes.data();
    call.query = query.data();
    call.output = output.data();
    call.positions = positions.data();
    call.sequences = sequences.data();
    call.block_size = 16;
    call.remainders = seen.data();
    for (int layer = 0; layer < 2; ++layer) {  // a plan serves layer after layer
      std::fill(output.begin(), output.end(), kNan);
      for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
        cpu_kernels(best_instruction_set())
            .attention(format)(call, plan, plan.tasks[i], scratch.data());
      }
      EXPECT_EQ(output, expected);
    }
  }
}

TEST(PagedAttention, ANanInAStoredRowReachesTheRowsThatSeeItAndNoOther) {
  for (const KvFormat format : kFormats) {
    for (const InstructionSet set : available_instruction_sets()) {
      for (const bool in_key : {true, false}) {
        const AttentionProblem clean = AttentionProblem::random({4, 2, 32, 32, 0.2F}, 300, 3);
        AttentionProblem p = clean;
        // Position 270, KV head 0.
        (in_key ? p.keys[270 * p.key_row() + 5] : p.values[270 * p.value_row() + 5]) = kNan;
        const RunOptions options{.set = set};
        const std::vector<float> expected = attend(clean, {clean, format, 16, 9}, 0, 300, options);
        const std::vector<float> output = attend(p, {p, format, 16, 9}, 0, 300, options);
        for (std::uint32_t position = 0; position < 300; ++position) {
          const std::size_t at = position * p.output_row();
          if (position < 270) {
            EXPECT_TRUE(std::equal(&output[at], &output[at] + p.output_row(), &expected[at]));
          } else {
            EXPECT_TRUE(std::isnan(output[at + 5])) << name_of(set) << " position " << position;
            EXPECT_EQ(output[at + 2 * 32], expected[at + 2 * 32]) << "head 2 has KV head 1";
          }
        }
      }
    }
  }
}

TEST(PagedAttention, ANanQueryGivesNanForItsRowAndHeadOnly) {
  for (const KvFormat format : kFormats) {
    for (const InstructionSet set : available_instruction_sets()) {
      const AttentionProblem clean = AttentionProblem::random({6, 2, 24, 40, 0.2F}, 60, 3);
      AttentionProblem p = clean;
      p.query[40 * p.query_row() + 4 * 24 + 7] = kNan;  // position 40, head 4
      const RunOptions options{.set = set};
      std::vector<float> expected = attend(clean, {clean, format, 16, 9}, 0, 60, options);
      std::vector<float> output = attend(p, {p, format, 16, 9}, 0, 60, options);
      for (std::uint32_t d = 0; d < 40; ++d) {
        const std::size_t at = 40 * p.output_row() + 4 * 40 + d;
        EXPECT_TRUE(std::isnan(output[at])) << name_of(set);
        output[at] = expected[at];
      }
      EXPECT_EQ(output, expected) << name_of(set);
    }
  }
}

TEST(PagedAttention, HugeAndSubnormalRowsStayWithinTheBound) {
  for (const KvFormat format : kFormats) {
    for (const auto& [key_size, value_size] :
         {std::pair{30000.0F, 30000.0F}, {1e-7F, 1e-7F}, {1e-7F, 30000.0F}, {0.0F, 1e-41F}}) {
      AttentionProblem p = AttentionProblem::random({4, 2, 48, 64, 1e-3F}, 280, 31);
      for (float& x : p.keys) x *= key_size;
      for (float& x : p.values) x *= value_size;
      const PagedArena arena(p, format, 16, 5);
      for (const InstructionSet set : available_instruction_sets()) {
        const std::vector<float> output = attend(p, arena, 0, p.length, {.set = set});
        for (const std::uint32_t position : {0U, 17U, 279U}) {
          expect_near_plain(p, arena, output, position, name_of(set));
        }
      }
    }
  }
}

TEST(PagedAttention, AttentionMassIsTheSumOfTheHeadsWeightsAndChangesNoOutput) {
  for (const KvFormat format : kFormats) {
    for (const AttentionShape& shape : shapes()) {
      const AttentionProblem p = AttentionProblem::random(shape, 530, 41);
      const PagedArena arena(p, format, 32, 5);
      const std::vector<float> without = attend(p, arena, 0, p.length);
      for (const std::uint32_t row : {0U, 300U, 529U}) {
        std::vector<float> mass(std::size_t{shape.kv_head_count} * p.length, kNan);
        for (const std::uint32_t from : {0U, row}) {  // as a prefill and as a shared decode
          const RunOptions options{.thread_count = 3, .mass_row = row, .mass = &mass};
          expect_same_rows(p, attend(p, arena, from, row + 1, options), without, from, "mass");
          const std::uint32_t group = shape.head_count / shape.kv_head_count;
          for (std::uint32_t h = 0; h < shape.kv_head_count; ++h) {
            std::vector<double> expected(p.length, 0.0);
            for (std::uint32_t head = h * group; head < (h + 1) * group; ++head) {
              const PlainAttention plain(p, arena, row, head);
              for (std::uint32_t k = 0; k <= row; ++k) expected[k] += plain.weight(k);
            }
            for (std::uint32_t k = 0; k <= row; ++k) {
              ASSERT_NEAR(mass[h * p.length + k], expected[k], 1e-3 * group) << row << " " << k;
            }
            double total = 0.0;
            for (std::uint32_t k = 0; k <= row; ++k) total += mass[h * p.length + k];
            EXPECT_NEAR(total, group, 1e-5 * group);
          }
        }
      }
    }
  }
}

TEST(PagedAttention, APlanCoversEachRowHeadAndSplitOnce) {
  const AttentionShape shape{6, 2, 16, 16, 1.0F};
  const std::vector<AttentionSequence> sequences = {
      {nullptr, 0, 200}, {nullptr, 200, 1}, {nullptr, 201, 77}, {nullptr, 278, 4}};
  std::vector<Position> positions(282);
  std::iota(positions.begin(), positions.end(), 0);
  positions[200] = 5000;
  for (std::size_t i = 278; i < 282; ++i) positions[i] = static_cast<Position>(1000 + i);
  for (const std::uint32_t thread_count : {1U, 16U, 64U}) {
    AttentionPlan plan;
    plan_attention(sequences, positions.data(), shape, thread_count, plan);
    EXPECT_EQ(plan.shares.empty(), thread_count == 1);
    ASSERT_EQ(plan.pending.size(), plan.shares.size());
    std::vector<std::uint32_t> tasks_of_share(plan.shares.size(), 0);
    std::vector<int> seen(282 * 2 * 32, 0);
    for (const AttentionTask& task : plan.tasks) {
      if (task.share != kNoShare) ++tasks_of_share[task.share];
      const AttentionSequence& s = sequences[task.sequence];
      EXPECT_GE(task.first_row, s.first_row);
      EXPECT_LE(task.first_row + task.row_count, s.first_row + s.row_count);
      for (std::uint32_t r = task.first_row; r < task.first_row + task.row_count; ++r) {
        for (std::uint32_t split = task.first_split; split < task.end_split; ++split) {
          ++seen[(r * 2 + task.kv_head) * 32 + split];
        }
      }
    }
    for (std::size_t i = 0; i < plan.shares.size(); ++i) {
      EXPECT_EQ(tasks_of_share[i], plan.shares[i].task_count);
    }
    for (std::uint32_t r = 0; r < 282; ++r) {
      const auto needed = static_cast<std::uint32_t>(positions[r]) / kSplitKeys + 1;
      for (std::uint32_t i = 0; i < needed; ++i) {
        EXPECT_EQ(seen[r * 64 + i], 1);
        EXPECT_EQ(seen[r * 64 + 32 + i], 1);
      }
    }
  }
}

}  // namespace
}  // namespace refrain::kernels
