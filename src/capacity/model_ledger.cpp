// See model_ledger.h.
#include "capacity/model_ledger.h"

namespace refrain::capacity {

LedgerInput ledger_input(const model::ModelShape& shape, model::KvFormat format) {
  // Of an embedding that is not the output matrix as well, a token reads one row.
  const std::uint64_t unread = shape.tied_output ? 0 : shape.embedding_bytes;
  // Without a file the vocabulary is not known: then all parameters count.
  const std::uint64_t table = std::uint64_t{shape.embedding_dim} * shape.vocabulary_size;
  const std::uint64_t tables = (shape.tied_output ? 1 : 2) * table;
  return {
      .parameter_count = shape.parameter_count,
      .prompt_parameter_count = shape.parameter_count > tables ? shape.parameter_count - tables : 0,
      .weight_bytes = shape.weight_bytes,
      .read_weight_bytes = shape.weight_bytes - unread,
      .layer_count = shape.layer_count,
      .head_count = shape.head_count,
      .kv_head_count = shape.kv_head_count,
      .key_dim = shape.key_dim,
      .value_dim = shape.value_dim,
      .windowed_layer_count = shape.windowed_layer_count(),
      .window_tokens = shape.sliding_window,
      .kv_bytes_per_token = model::kv_bytes_per_token(shape, format)};
}

}  // namespace refrain::capacity
