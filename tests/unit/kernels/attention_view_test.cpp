// Attention over sequences whose heads see rows of their own, against plain sequences of these
// rows, bit for bit (B4).
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/paged_attention.h"
#include "support/attention_problem.h"

namespace refrain::kernels {
namespace {

constexpr KvFormat kFormats[] = {KvFormat::kF16, KvFormat::kQ8, KvFormat::kQ8Q4, KvFormat::kQ4};
constexpr AttentionShape kShapes[] = {{9, 3, 64, 64, 0.125F},
                                      {4, 1, 256, 256, 0.0625F, 100},
                                      {6, 2, 80, 48, 0.11F, 0, 5.0F},
                                      {5, 5, 20, 36, 0.2F, 300}};

// Where a tile of rows of a head lies in an arena of one layer.
TilePlace place_of(const PagedArena& arena, std::uint32_t head, std::uint32_t row) {
  const KvLayout& layout = arena.layout;
  const std::size_t tile = static_cast<std::size_t>(arena.slot(row)) / kTileTokens;
  const std::size_t head_at = head * layout.head_bytes;
  return {head_at + tile * layout.key_tile_bytes,
          head_at + layout.values_at + tile * layout.value_tile_bytes};
}

// A plain sequence of what one head of a view sees; of its queries the last are those of `p`.
struct SeenRows {
  AttentionProblem problem;
  PagedArena arena;

  SeenRows(const AttentionProblem& p, const PagedArena& from, const AttentionView& view,
           std::uint32_t head)
      : problem(AttentionProblem::random(
            p.shape, p.length + view.heads[head].tile_count * kTileTokens - (view.end - view.begin),
            3)),
        arena(problem, from.layout.format, 16, 4) {
    std::copy(p.query.end() - static_cast<std::ptrdiff_t>(kQueries * p.query_row()), p.query.end(),
              problem.query.end() - static_cast<std::ptrdiff_t>(kQueries * p.query_row()));
    const std::uint32_t own_end = view.begin + view.heads[head].tile_count * kTileTokens;
    for (std::uint32_t row = 0; row < problem.length; row += kTileTokens) {
      const bool own = row >= view.begin && row < own_end;
      const TilePlace source =
          own ? view.heads[head].tiles[(row - view.begin) / kTileTokens]
              : place_of(from, head, row < view.begin ? row : row - own_end + view.end);
      const TilePlace target = place_of(arena, head, row);
      std::memcpy(&arena.bytes[target.keys], &from.bytes[source.keys], from.layout.key_tile_bytes);
      std::memcpy(&arena.bytes[target.values], &from.bytes[source.values],
                  from.layout.value_tile_bytes);
    }
    // The queries' own tile is the table's last one.
    const std::size_t width = arena.remainders.width;
    for (std::uint32_t row = problem.length / kTileTokens * kTileTokens; row < problem.length;
         ++row)
      std::copy_n(from.remainders.rows[row - own_end + view.end].at, width,
                  arena.remainders.rows[row].at);
  }
  static constexpr std::uint32_t kQueries = 5;
};

// B4: heads that see tiles of their own in the middle of a sequence, more or fewer, wherever they
// lie, give the bits of a plain sequence of these rows; what the table has there reaches nothing.
TEST(AttentionView, EachHeadOfAViewSeesItsOwnTilesAndNothingElse) {
  Rng rng(41);
  for (const KvFormat format : kFormats) {
    for (const AttentionShape& shape : kShapes) {
      const AttentionProblem p = AttentionProblem::random(shape, 700, 23);
      PagedArena arena(p, format, 32, 9);
      std::vector<std::vector<TilePlace>> places(shape.kv_head_count);
      std::vector<AttentionView::Head> heads;
      AttentionView view{.begin = 32, .end = 128};
      for (auto& own : places) {
        const std::uint64_t count = heads.empty() ? rng.below(2) * 40 : rng.below(30);
        for (std::uint64_t i = 0; i < count; ++i) {
          const auto lane = static_cast<std::uint32_t>(rng.below(shape.kv_head_count));
          own.push_back(
              place_of(arena, lane, 128 + 16 * static_cast<std::uint32_t>(rng.below(35))));
        }
        heads.push_back({own.data(), static_cast<std::uint32_t>(own.size())});
        view.most_tiles = std::max(view.most_tiles, heads.back().tile_count);
      }
      view.heads = heads.data();
      for (std::uint32_t head = 0; head < shape.kv_head_count; ++head) {
        for (std::uint32_t row = view.begin; row < view.end; row += kTileTokens) {
          const TilePlace unseen = place_of(arena, head, row);
          std::memset(&arena.bytes[unseen.keys], 0xFF, arena.layout.key_tile_bytes);
          std::memset(&arena.bytes[unseen.values], 0xFF, arena.layout.value_tile_bytes);
        }
      }
      for (const std::uint32_t threads : {1U, 3U}) {
        const std::uint32_t from = p.length - SeenRows::kQueries;
        const std::vector<float> found =
            attend(p, arena, from, p.length, {.thread_count = threads, .view = &view});
        const std::size_t width =
            std::size_t{shape.head_count / shape.kv_head_count} * shape.value_dim;
        for (std::uint32_t head = 0; head < shape.kv_head_count; ++head) {
          const SeenRows seen(p, arena, view, head);
          const std::uint32_t length = seen.problem.length;
          const std::vector<float> expected =
              attend(seen.problem, seen.arena, length - SeenRows::kQueries, length);
          for (std::size_t row = 0; row < SeenRows::kQueries; ++row) {
            const std::size_t at = row * p.output_row() + head * width;
            ASSERT_EQ(std::memcmp(&found[at], &expected[at], width * sizeof(float)), 0)
                << kv_format_name(format) << " head " << head << " row " << row;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace refrain::kernels
