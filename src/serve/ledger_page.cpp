// See ledger_page.h.
#include "serve/ledger_page.h"

#include <cmath>

#include "serve/json_writer.h"

namespace refrain::serve {
namespace {

// Bytes of a number of tokens that need not be whole.
std::uint64_t whole(double value) {
  return static_cast<std::uint64_t>(std::llround(value));
}

class LedgerPage {
 public:
  explicit LedgerPage(const ServerParts& parts)
      : parts_(parts),
        input_(parts.ledger),
        ledgers_(capacity::compute_ledgers(parts.ledger)),
        report_(parts.engine->kv_report()),
        measured_at_start_(input_.read_bandwidth_bytes_per_s >= report_.decode.best_bytes_per_s),
        bandwidth_(measured_at_start_ ? input_.read_bandwidth_bytes_per_s
                                      : report_.decode.best_bytes_per_s) {}

  std::string write(const Caller& caller) {
    out_.begin_object().field("object", "ledger").field("model", parts_.model_name);
    out_.field("kv_format", parts_.kv_format).field("block_size", input_.block_size);
    write_planned();
    write_used();
    out_.field("running", report_.running);
    out_.field("waiting", parts_.engine->snapshot().waiting);
    out_.key("requests").begin_array();
    for (const engine::RequestKv& row : report_.requests)
      if (caller.is_admin || row.tenant == caller.tenant) write_request(row);
    out_.end_array();
    write_per_request();
    write_tpot();
    out_.end_object();
    return out_.take();
  }

 private:
  std::uint64_t bytes_of(double tokens) const {
    return whole(tokens * static_cast<double>(ledgers_.kv_bytes_per_token));
  }

  // What reading so many bytes takes; null where the bandwidth is unknown or nothing was read.
  void write_predicted(std::string_view name, double read_bytes) {
    out_.key(name);
    if (bandwidth_ > 0 && read_bytes > 0) {
      out_.value(1e3 * read_bytes / bandwidth_);
    } else {
      out_.null();
    }
  }
  void write_measured(std::string_view name, double milliseconds) {
    out_.key(name);
    if (milliseconds > 0) {
      out_.value(milliseconds);
    } else {
      out_.null();
    }
  }

  void write_planned() {
    out_.key("planned").begin_object();
    out_.field("memory_bytes", input_.memory_bytes);
    out_.field("weight_bytes", input_.weight_bytes);
    out_.field("activation_bytes", input_.activation_bytes);
    out_.field("kv_budget_bytes", block_bytes() * report_.blocks.total);
    out_.field("context_tokens", input_.context_tokens);
    out_.field("kv_bytes_per_token", ledgers_.kv_bytes_per_token);
    out_.field("kv_bytes_per_sequence", ledgers_.kv_bytes_per_sequence);
    out_.field("kv_share_of_weights", ledgers_.kv_share_of_weights);
    out_.field("sequences", ledgers_.sequences);
    out_.key("decode_read_bytes").begin_object();
    out_.field("empty", ledgers_.decode_read_bytes_empty);
    out_.field("full", ledgers_.decode_read_bytes_full).end_object();
    out_.key("prefill_flop").begin_object().field("weights", ledgers_.prefill_flop);
    out_.field("attention", ledgers_.attention_flop).end_object();
    out_.end_object();
  }

  std::uint64_t block_bytes() const { return ledgers_.kv_bytes_per_token * input_.block_size; }

  void write_blocks(std::string_view name, std::uint64_t blocks) {
    out_.key(name).begin_object().field("blocks", blocks);
    out_.field("tokens", blocks * input_.block_size);
    out_.field("bytes", blocks * block_bytes()).end_object();
  }

  void write_used() {
    const kv::LedgerCounts& blocks = report_.blocks;
    out_.key("used").begin_object();
    write_blocks("total", blocks.total);
    write_blocks("active", blocks.pinned);
    write_blocks("cached", blocks.evictable);
    write_blocks("free", blocks.free);
    write_blocks("reserved", blocks.reserved);
    out_.end_object();
  }

  void write_request(const engine::RequestKv& row) {
    out_.begin_object().field("id", row.label).field("request", to_int(row.id));
    out_.field("tenant", row.tenant).field("running_choices", row.choices);
    out_.field("age_s", row.age_s).field("prompt_tokens", row.prompt_tokens);
    out_.field("reused_tokens", row.reused_tokens);
    out_.field("generated_tokens", row.generated_tokens);
    out_.field("class", row.is_long ? "long" : "short");
    out_.key("alarm");
    if (row.alarm == engine::Alarm::kNone) {
      out_.null();
    } else {
      out_.value(engine::alarm_name(row.alarm));
    }
    out_.field("throttled", row.throttled);
    out_.key("kv").begin_object().field("tokens", row.kv_tokens);
    out_.field("bytes", row.kv_tokens * ledgers_.kv_bytes_per_token);
    out_.field("blocks", row.kv_blocks).field("block_bytes", row.kv_blocks * block_bytes());
    out_.field("peak_bytes", row.peak_tokens * ledgers_.kv_bytes_per_token);
    out_.field("mean_bytes", bytes_of(row.mean_tokens)).end_object();
    out_.key("tpot").begin_object();
    write_predicted("predicted_ms", row.step_read_bytes);
    write_measured("measured_ms", row.tpot_ms);
    out_.end_object().end_object();
  }

  void write_per_request() {
    const engine::EndedKv& ended = report_.ended;
    const double count = ended.requests > 0 ? static_cast<double>(ended.requests) : 1;
    out_.key("ended_requests").begin_object().field("count", ended.requests);
    out_.field("largest_kv_bytes", ended.peak_tokens * ledgers_.kv_bytes_per_token);
    out_.field("mean_of_peak_kv_bytes", bytes_of(ended.sum_of_peak_tokens / count));
    out_.field("mean_kv_bytes", bytes_of(ended.sum_of_mean_tokens / count)).end_object();
  }

  void write_tpot() {
    const engine::DecodeSteps& decode = report_.decode;
    out_.key("tpot").begin_object();
    out_.key("read_bandwidth_bytes_per_s");
    if (bandwidth_ > 0) {
      out_.value(bandwidth_)
          .field("bandwidth_from", measured_at_start_ ? "reading the weights at the start"
                                                      : "the fastest decode step so far");
    } else {
      out_.null().field("bandwidth_from", "nothing yet");
    }
    out_.field("decode_steps", decode.steps).field("rows_per_step", decode.rows);
    out_.field("read_bytes_per_step", whole(decode.read_bytes));
    write_predicted("predicted_ms", decode.read_bytes);
    write_measured("measured_ms", 1e3 * decode.seconds);
    out_.end_object();
  }

  const ServerParts& parts_;
  const capacity::LedgerInput& input_;
  const capacity::FourLedgers ledgers_;
  const engine::KvReport report_;
  // A busy machine reads slower at the start than it can; a decode step that was faster counts.
  const bool measured_at_start_;
  const double bandwidth_;
  JsonWriter out_;
};

}  // namespace

HttpResponse ledger_page(const ServerParts& parts, const Caller& caller) {
  return HttpResponse{.body = LedgerPage(parts).write(caller)};
}

}  // namespace refrain::serve
