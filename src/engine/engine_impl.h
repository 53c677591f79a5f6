// Engine::Impl: the engine thread's state. Methods stand in six files:
//   engine.cpp          public calls, the thread and the step
//   engine_admission.cpp  mail, deadlines, admission of waiting choices
//   engine_reuse.cpp    plans, and prompts with moved runs
//   engine_trim.cpp     contexts that are kept within a budget
//   engine_results.cpp  what a step produced: tokens, ends, errors
//   engine_report.cpp   who holds how much of the KV budget, what steps read
//   engine_isolation.cpp  the long class and requests out of line
//
// Everything is used by the engine thread only, except inbox_ (locks itself), limits_ (constant),
// snapshot_ and kv_report_ (own locks).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/active_request.h"
#include "engine/batch_builder.h"
#include "engine/engine.h"
#include "engine/engine_metrics.h"
#include "engine/idle_work.h"
#include "engine/inbox.h"
#include "engine/isolation.h"
#include "engine/request_check.h"
#include "engine/scheduler.h"
#include "engine/score_store.h"
#include "engine/waiting_queue.h"
#include "model/batch.h"

namespace refrain::engine {

class Engine::Impl {
 public:
  Impl(const EngineParts& parts, const EngineOptions& options);
  ~Impl();

  // ---- any thread
  void start();
  void stop();
  Result<RequestId> submit(GenerateRequest request, std::shared_ptr<OutputStream> stream,
                           WhenFull when_full);
  void cancel(RequestId id) { inbox_.cancel(id); }
  void drain() { inbox_.drain(); }
  bool drained() const { return inbox_.drained(); }
  EngineSnapshot snapshot() const;
  KvReport kv_report() const;
  double estimated_wait_s() const;

 private:
  struct Running {
    ActiveRequest* request;
    Sequence* sequence;
    std::uint64_t age_order;
  };
  struct Refusal {
    ActiveRequest* request;
    Error error;
  };

  // ---- the thread and the step (engine.cpp)
  void run_thread();
  void step();
  void rest();
  void work_idle();
  void take_audit(const Audit& audit);
  bool schedule_rows();
  void run_batch();
  void publish_snapshot();
  void announce_ends();
  void verify_ledger();

  // ---- admission (engine_admission.cpp)
  void take_mail();
  void accept(Incoming incoming);
  void expire_deadlines();
  void admit_waiting();
  bool end_one_that_gives_way();
  WaitingQueue::Verdict try_admit(Sequence& sequence);
  // Whether the long class may take on this choice: its blocks and those of all that run.
  bool long_class_has_room(const kv::ReusePlan& plan, std::uint32_t worst_case) const;
  void note_admission(ActiveRequest& request, Sequence& sequence, const kv::Admission& admission,
                      const kv::ReusePlan& plan);
  void queue_siblings(ActiveRequest& request);

  // ---- reuse (engine_reuse.cpp)
  struct Planned {
    kv::ReusePlan plan;
    ReuseRefusal refusal = ReuseRefusal::kNone;
  };
  kv::CacheSpace space_of(const GenerateRequest& request) const;
  Planned plan_for(const ActiveRequest& request, const Sequence& sequence) const;
  // Whether a calibrated gate, not refuted by audits, knows what may be moved.
  bool can_judge(std::span<const kv::SegmentRun> runs) const;
  void plan_repair(const ActiveRequest& request, Sequence& sequence,
                   std::vector<kv::SegmentRun> runs, double inherited);
  void begin_repair(Sequence& sequence);
  Result<void> take_repair(const ScheduledSequence& entry);
  void refuse_repair(ActiveRequest& request, Sequence& sequence);
  bool is_near_tie(const ActiveRequest& request, Sequence& sequence,
                   std::span<const float> logits) const;
  Result<void> compute_exactly(ActiveRequest& request, Sequence& sequence);
  void keep_for_idle(const ActiveRequest& request, Sequence& sequence,
                     std::span<const float> logits) const;
  const model::AttentionMass* mass_of(const ScheduledSequence& entry) const;

  // ---- trimming (engine_trim.cpp)
  // What it may hold at most, with the slots that trimming looks in.
  std::uint32_t worst_case(const ActiveRequest& request, Sequence& sequence) const;
  void trim_contexts();
  Result<void> trim_context(ActiveRequest& request, Sequence& sequence);
  void begin_trim(const ActiveRequest& request, Sequence& sequence);
  void keep_trimmed_for_idle(const ActiveRequest& request, Sequence& sequence) const;

  // ---- results and ends (engine_results.cpp)
  void take_results();
  Result<void> take_result(const ScheduledSequence& entry);
  Result<void> read_prompt_results(const ScheduledSequence& entry);
  void commit_rows(const ScheduledSequence& entry);
  void prompt_rows_done(ActiveRequest& request, const Sequence& sequence);
  void prompt_done(ActiveRequest& request);
  Result<void> take_token(ActiveRequest& request, Sequence& sequence, const Sample& sample);
  void fail_batch(const Error& error);
  void end_choice(ActiveRequest& request, Sequence& sequence, FinishReason reason);
  void end_open_choices(ActiveRequest& request, FinishReason reason);
  void fail_request(ActiveRequest& request, Error error);
  void close_request(ActiveRequest& request);
  void give_back(ActiveRequest& request, Sequence& sequence);
  void stop_running(const ActiveRequest& request, Sequence& sequence);
  std::span<float> logits_row(std::size_t row);

  // ---- reports (engine_report.cpp)
  struct HeldKv {
    std::uint64_t tokens = 0;
    std::uint64_t blocks = 0;
  };
  HeldKv held_by(const ActiveRequest& request) const;
  // What each request holds from now_ on.
  void note_kv_use();
  // Looks for requests out of line, once per step.
  void raise_alarms();
  void raise(ActiveRequest& request, Alarm alarm);
  void publish_classes();
  // What the batch that was built will read.
  void note_step_reads();
  void note_decode_step(Tick duration);
  void count_ended_kv(ActiveRequest& request);
  void publish_kv_report();

  const EngineParts parts_;
  const EngineOptions options_;
  const RequestLimits limits_;
  kv::Ledger& ledger_;
  EngineMetrics metrics_;
  Inbox inbox_;
  std::thread thread_;
  std::mutex life_mutex_;  // start() and stop()
  bool stopped_ = false;

  bool stop_requested_ = false;
  Tick now_ = 0;  // of this step; read again after the batch has run
  std::unordered_map<std::uint64_t, std::unique_ptr<ActiveRequest>> requests_;
  std::vector<std::unique_ptr<ActiveRequest>> ended_;  // kept until the step is over
  WaitingQueue queue_;
  bool admit_again_ = false;       // something changed since the queue was tried last
  bool answer_blocked_ = false;    // no place for a request that somebody waits for
  std::vector<Refusal> refusals_;  // of the admission round in progress
  std::vector<Running> running_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_age_ = 1;
  std::uint64_t turns_ = 0;  // shares of steps given out
  std::uint64_t idle_count_ = 0;

  Isolation isolation_;
  Scheduler scheduler_;
  BatchBuilder builder_;
  std::vector<ScheduledSequence> scheduled_;
  model::Batch batch_;
  model::BatchOutput output_;

  ScoreStore scores_;
  IdleWork idle_;
  AuditBook audits_;

  double step_read_bytes_ = 0;     // of the batch at hand
  std::uint32_t decode_rows_ = 0;  // of it; 0 = it does not only decode
  DecodeSteps decode_steps_;
  EndedKv ended_kv_;
  KvReport next_report_;  // being made; keeps its memory
  bool admitted_unreported_ = false;

  std::uint64_t generated_tokens_ = 0;
  std::uint64_t computed_prompt_tokens_ = 0;
  std::uint64_t steps_ = 0;
  Tick last_end_at_ = -1;   // -1: nothing ended since the engine was idle
  double end_gap_s_ = 1.0;  // smoothed time between two ends of requests

  mutable std::mutex snapshot_mutex_;
  EngineSnapshot snapshot_;
  double snapshot_end_gap_s_ = 1.0;

  mutable std::mutex kv_report_mutex_;
  KvReport kv_report_;
};

}  // namespace refrain::engine
