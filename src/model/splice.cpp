// See splice.h.
#include "model/splice.h"

#include <algorithm>

#include "base/check.h"

namespace refrain::model {
namespace {

kernels::Rotation rotation_of(const std::vector<float>& angles, bool halves) {
  const std::size_t pairs = angles.size() / 2;
  return {angles.data(), angles.data() + pairs, static_cast<std::uint32_t>(angles.size()), halves};
}

}  // namespace

void append_moves(const kv::SegmentRun& run, const kv::BlockTable& to, std::uint32_t block_size,
                  std::vector<RowMove>& moves) {
  const auto left_in_block = [&](Position row) {
    return block_size - static_cast<std::uint32_t>(row) % block_size;
  };
  for (std::uint32_t done = 0; done < run.length;) {
    const auto from = static_cast<Position>(run.first_row + done);  // within run.blocks
    const Position position = run.begin + static_cast<Position>(done);
    const std::uint32_t count =
        std::min({run.length - done, left_in_block(from), left_in_block(position)});
    moves.push_back({.from = kv::slot_of(run.blocks, from, block_size),
                     .to = kv::slot_of(to, position, block_size),
                     .row_count = count,
                     .distance = run.begin - run.source_begin});
    done += count;
  }
}

Splice::Splice(const Model& model, KvArena& arena, kernels::InstructionSet set)
    : shape_(model.shape()),
      arena_(arena),
      rotary_(model),
      global_angles_(shape_.rope.dimensions),
      local_angles_(shape_.rope.dimensions) {
  turn_.kernel = kernels::cpu_kernels(set).turn_key_tile;
}

Result<std::unique_ptr<Splice>> Splice::create(const Model& model, KvArena& arena,
                                               std::optional<kernels::InstructionSet> set) {
  std::unique_ptr<Splice> made(
      new Splice(model, arena, set.value_or(kernels::best_instruction_set())));
  constexpr std::size_t kAlignment = 64;
  const kernels::KvLayout& layout = arena.layout();
  const std::size_t tile = (layout.key_tile_bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t floats = std::size_t{layout.key_groups} * 4 * kernels::kTileTokens;
  if (!made->memory_.reserve(tile + floats * sizeof(float))) {
    return Error{Code::kUnavailable, "not enough memory to move keys and values"};
  }
  made->turn_.turned = made->memory_.data();
  made->turn_.scratch = reinterpret_cast<float*>(made->memory_.data() + tile);
  return made;
}

void Splice::set_angles(Position distance) {
  const std::size_t pairs = global_angles_.size() / 2;
  rotary_.global().turn(distance, global_angles_.data(), global_angles_.data() + pairs);
  rotary_.local().turn(distance, local_angles_.data(), local_angles_.data() + pairs);
}

void Splice::move(std::span<const RowMove> moves) {
  while (!moves.empty()) {
    std::size_t count = 1;
    while (count < moves.size() && moves[count].distance == moves[0].distance) ++count;
    move_alike(moves.first(count));
    moves = moves.subspan(count);
  }
}

void Splice::move(std::span<const kv::SegmentRun> runs, const kv::BlockTable& to) {
  std::vector<RowMove> moves;
  for (const kv::SegmentRun& run : runs) append_moves(run, to, arena_.block_size(), moves);
  move(moves);
}

// Moves of one distance, layer after layer: a layer's tiles lie together.
void Splice::move_alike(std::span<const RowMove> moves) {
  const std::uint32_t block_size = arena_.block_size();
  const kv::Slot end = kv::Slot{block_size} * arena_.block_count();
  for (const RowMove& move : moves) {
    const auto fits = [&](kv::Slot at) {
      return at < end && move.row_count <= block_size - at % block_size;
    };
    CHECK(fits(move.from) && fits(move.to), "a move across blocks or outside the arena");
  }
  const Position distance = moves[0].distance;
  if (distance != 0) set_angles(distance);
  const bool halves = shape_.rope.layout == RopeLayout::kHalves;
  for (std::uint32_t index = 0; index < shape_.layer_count; ++index) {
    const bool local = shape_.is_local_layer(index);
    turn_.rotation = rotation_of(local ? local_angles_ : global_angles_, halves);
    for (const RowMove& move : moves) {
      kernels::move_kv_rows(arena_.layout(), arena_.layer(index), move.from, move.to,
                            move.row_count, distance == 0 ? nullptr : &turn_);
    }
  }
}

}  // namespace refrain::model
