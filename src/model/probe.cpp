// See probe.h.
#include "model/probe.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/hash.h"

namespace refrain::model {
namespace {

// Which of `count` rows, by what the stretch says.
std::uint32_t pick(std::span<const TokenId> stretch) {
  return static_cast<std::uint32_t>(hash_bytes(std::as_bytes(stretch)).low % stretch.size());
}

double norm(std::span<const float> values) {
  double squares = 0.0;
  for (const float value : values) squares += double{value} * double{value};
  return std::sqrt(squares);
}

double distance(std::span<const float> a, std::span<const float> b) {
  double squares = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = double{a[i]} - double{b[i]};
    squares += apart * apart;
  }
  return std::sqrt(squares);
}

}  // namespace

std::vector<Position> choose_probes(std::span<const MovedRun> runs, std::span<const TokenId> tokens,
                                    std::uint32_t per_run) {
  std::vector<Position> rows;
  for (const MovedRun& run : runs) {
    const auto length = static_cast<std::uint32_t>(run.end - run.begin);
    const std::uint32_t count = std::min(per_run, length);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t first = length * i / count, last = length * (i + 1) / count;
      const auto stretch =
          tokens.subspan(static_cast<std::size_t>(run.begin) + first, std::size_t{last - first});
      rows.push_back(run.begin + static_cast<Position>(first + pick(stretch)));
    }
  }
  return rows;
}

std::vector<float> ProbeReader::read(const kv::BlockTable& table,
                                     std::span<const Position> rows) const {
  const std::uint32_t heads = shape_.kv_head_count, width = shape_.value_dim;
  std::vector<float> values(rows.size() * shape_.layer_count * heads * width);
  float* to = values.data();
  for (const Position row : rows) {
    const kv::Slot slot = kv::slot_of(table, row, arena_.block_size());
    for (std::uint32_t layer = 0; layer < shape_.layer_count; ++layer) {
      for (std::uint32_t head = 0; head < heads; ++head, to += width)
        arena_.read_row(layer, head, slot, nullptr, to);
    }
  }
  return values;
}

std::vector<float> ProbeReader::residuals(std::span<const MovedRun> runs,
                                          std::span<const Position> rows,
                                          std::span<const float> moved,
                                          std::span<const float> fresh) const {
  const std::size_t layers = shape_.layer_count;
  const std::size_t width = std::size_t{shape_.kv_head_count} * shape_.value_dim;
  CHECK(moved.size() == rows.size() * layers * width && fresh.size() == moved.size(),
        "readings of other rows");
  std::vector<float> means;
  means.reserve(runs.size());
  for (const MovedRun& run : runs) {
    double sum = 0.0;
    std::size_t count = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < run.begin || rows[i] >= run.end) continue;
      for (std::size_t layer = 0; layer < layers; ++layer, ++count) {
        const std::size_t at = (i * layers + layer) * width;
        const auto now = fresh.subspan(at, width);
        const double length = norm(now);
        // A row that is no number must not count as one that is not off at all.
        if (length != 0.0) sum += distance(now, moved.subspan(at, width)) / length;
      }
    }
    means.push_back(count == 0 ? 0.0F : static_cast<float>(sum / static_cast<double>(count)));
  }
  return means;
}

}  // namespace refrain::model
