// Batch: one step of work for an Executor: rows of different sequences, prefill pieces and decodes
// mixed. Built by engine/scheduler, read by model/. Plain data, engine thread.
//
//   rows        r0   r1   r2 | r3 | r4
//   sequence     0    0    0 |  1 |  2        rows of one sequence are adjacent, positions ascend
//   position    16   17   18 | 40 |  7        and end at sequences[s].length - 1
//
// Positions may have gaps: rows between are not computed, and the others see what their slots hold
// (a repair computes chosen rows of a sequence whose other rows were moved there). A row sees the
// keys at positions <= its own, those of this batch included.
//
// A trimmed sequence (kv::Cut) has fewer rows in its table than its length: the row at position p,
// behind all cuts, is row p - dropped of the table. Keys were turned by their own positions, so a
// row sees those that stayed as it would see them beside the others.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "kv/block_table.h"

namespace refrain::model {

class HeadView;
class OpenTile;

struct BatchRow {
  TokenId token{};
  Position position = 0;
  std::uint32_t sequence = 0;  // index into Batch::sequences
  kv::Slot slot = 0;           // where this row's K/V is written
  bool wants_logits = false;
  bool wants_hidden = false;   // final hidden state after the output norm (embeddings)
  bool wants_mass = false;     // adds to its sequence's attention mass; changes no result
  float mass_weight = 1.0F;    // >= 0; what it adds is multiplied by this
  bool wants_queries = false;  // its queries of all layers; changes no result
};

struct BatchSequence {
  const kv::BlockTable* table = nullptr;  // valid during run()
  std::uint32_t length = 0;               // tokens up to the last row of this step
  std::uint32_t dropped = 0;              // of them, not in the table
  // Where heads see other rows than the table has (head_view.h); null: all of it. Valid during
  // run(). Rows of such a sequence ask for no mass.
  const HeadView* view = nullptr;
  // The sequence's own (open_tile.h); null only where the KV format keeps no remainders. Written by
  // run().
  OpenTile* open_tile = nullptr;
  std::uint32_t rows() const { return length - dropped; }
};

// How the weights of the rows that asked become one figure.
enum class MassKind : std::uint8_t {
  kSum,      // summed over rows and all query heads:           [layers][length]
  kHeadSum,  // summed over rows and the query heads of a head: [layers][kv heads][length]
  kHeadMax,  // the largest over rows of the sum over the query heads of a head; likewise
};

struct Batch {
  std::vector<BatchRow> rows;
  std::vector<BatchSequence> sequences;
  std::uint32_t first_mass_layer = 0;  // earlier layers give no attention mass
  MassKind mass_kind = MassKind::kSum;
};

// How much attention the rows that asked paid to each key of their sequence: softmax weights, made
// one as Batch::mass_kind says, for each layer from Batch::first_mass_layer on. The last
// layer is left out (zeros) of a batch in which no row wants logits or hidden state.
struct AttentionMass {
  std::uint32_t sequence = 0;  // index into Batch::sequences
  std::uint32_t length = 0;    // keys: rows of the sequence's table
  std::vector<float> weights;  // [layer_count - first_mass_layer], (kv heads), [length]
};

// Results in the order of the rows that asked; reused between steps.
struct BatchOutput {
  std::vector<float> logits;        // [rows with wants_logits, vocabulary_size]
  std::vector<float> hidden;        // [rows with wants_hidden, embedding_dim]
  std::vector<AttentionMass> mass;  // of sequences with rows that want it, in their order
  // [layers, rows with wants_queries, query heads, key_dim], as they meet the keys: normed and
  // turned. The last layer's are zeros where AttentionMass has none of it.
  std::vector<float> queries;
};

}  // namespace refrain::model
