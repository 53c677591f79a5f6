// Traffic for `refrain bench serve`: conversations of five shapes, made from a seed. A session is
// one conversation; session i of a workload is always the same apart from what the model answers.
//
//   chat    shared system message, 4 turns, growing history
//   rag     shared system message, 3 of 8 shared documents in any order, a question
//   agent   long instructions, 6 steps with tool-like results
//   batch   one long fixed template, another item each time
//   noisy   time and ids in front of a fixed text: what spoils prefix reuse
//
// Plain values; one owner per session.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace refrain::cli {

struct WorkloadMessage {
  std::string role;
  std::string content;
};

class Session {
 public:
  // `kind` is one of the choices of --workload.
  Session(std::string_view kind, std::uint64_t seed, std::uint64_t index);

  const std::vector<WorkloadMessage>& messages() const { return messages_; }
  // Takes the answer and asks the next question; false when the conversation is over.
  bool answered(std::string_view answer);

 private:
  void begin_chat();
  void begin_rag();
  void begin_agent();
  void begin_batch();
  void begin_noisy();
  std::string words(std::size_t count);

  Rng rng_;
  std::uint64_t index_;
  std::uint32_t turns_left_ = 0;
  std::uint32_t next_words_ = 0;  // length of the next user message
  std::string next_prefix_;
  std::vector<WorkloadMessage> messages_;
};

// `count` words that look like text, the same for the same generator state.
std::string random_words(Rng& rng, std::size_t count);

}  // namespace refrain::cli
