// AnswerFrame: what an answer has around its choices, whether chat or completion: the head of the
// whole body and of each chunk, chunks without a choice, usage and timings. One per call, on the
// connection's strand.
//
//   JsonWriter out;  frame.begin(out);  ... choices ...;  return frame.end_chunk(out);
#pragma once

#include <string>
#include <string_view>

#include "serve/answer_shape.h"
#include "serve/json_writer.h"
#include "serve/reply.h"

namespace refrain::serve {

struct FrameOptions {
  AnswerIdentity identity;
  bool stream = false;
  bool include_usage = false;    // streams end with a chunk that holds it
  bool return_progress = false;  // chunks during a long prefill
  PromptNotes notes = {};
};

class AnswerFrame {
 public:
  AnswerFrame(FrameOptions options, std::string_view whole_object, std::string_view chunk_object)
      : options_(std::move(options)), object_(options_.stream ? chunk_object : whole_object) {}

  bool stream() const { return options_.stream; }
  void add(const engine::TokenEvent& finished) { totals_.add(finished); }

  // Opens a chunk or the whole body up to its array of choices.
  void begin(JsonWriter& out) const;
  // Closes the array and the chunk. The call's last finish chunk carries the timings.
  std::string end_chunk(JsonWriter& out, bool with_timings = false) const;
  // Closes the array and the whole body.
  std::string end_whole(JsonWriter& out) const;

  // A chunk that tells how much of the prompt is computed; "" unless asked for.
  std::string progress(const engine::TokenEvent& event) const;
  // What follows the last choice of a stream.
  std::string end_of_stream() const;

 private:
  void write_totals(JsonWriter& out) const;

  const FrameOptions options_;
  const std::string object_;
  CallTotals totals_;
};

}  // namespace refrain::serve
