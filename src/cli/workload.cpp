// The five shapes.
#include "cli/workload.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/str.h"

namespace refrain::cli {
namespace {

constexpr std::array<std::string_view, 64> kWords = {
    "order",   "delivery", "garden",  "window",  "answer", "question", "machine", "letter",
    "winter",  "market",   "paper",   "bridge",  "music",  "number",   "engine",  "village",
    "service", "contract", "invoice", "station", "the",    "a",        "of",      "and",
    "to",      "in",       "with",    "for",     "from",   "about",    "is",      "was",
    "has",     "needs",    "shows",   "takes",   "gives",  "keeps",    "finds",   "opens",
    "small",   "large",    "quick",   "old",     "new",    "green",    "quiet",   "open",
    "second",  "late",     "today",   "never",   "often",  "again",    "slowly",  "together",
    "before",  "after",    "under",   "between", "please", "however",  "because", "although"};

// A generator for text that all sessions of a workload share.
Rng shared_rng(std::uint64_t seed, std::uint64_t what) {
  return Rng(seed * 1'000'003 + what + 1);
}

std::string shared_words(std::uint64_t seed, std::uint64_t what, std::size_t count) {
  Rng rng = shared_rng(seed, what);
  return random_words(rng, count);
}

}  // namespace

std::string random_words(Rng& rng, std::size_t count) {
  std::string text;
  std::size_t in_sentence = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view word = kWords[rng.below(kWords.size())];
    if (!text.empty()) text += ' ';
    text += word;
    if (++in_sentence > 6 + rng.below(8)) {
      text += '.';
      in_sentence = 0;
    }
  }
  return text;
}

Session::Session(std::string_view kind, std::uint64_t seed, std::uint64_t index)
    : rng_(seed * 7'919 + index * 104'729 + 17), index_(index) {
  const auto system = [&](std::size_t count) {
    messages_.push_back({"system", "You are a helpful assistant. " + shared_words(seed, 0, count)});
  };
  if (kind == "chat") {
    system(60);
    begin_chat();
  } else if (kind == "rag") {
    system(80);
    // Three of eight documents, in the order this session found them.
    std::array<std::uint64_t, 8> documents = {1, 2, 3, 4, 5, 6, 7, 8};
    for (std::size_t i = documents.size() - 1; i > 0; --i)
      std::swap(documents[i], documents[rng_.below(i + 1)]);
    std::string text;
    for (std::size_t i = 0; i < 3; ++i) {
      text +=
          str_cat("Document ", documents[i], ": ", shared_words(seed, documents[i], 200), "\n\n");
    }
    next_prefix_ = std::move(text);
    begin_rag();
  } else if (kind == "agent") {
    system(500);
    begin_agent();
  } else if (kind == "batch") {
    next_prefix_ = shared_words(seed, 9, 250) + "\n\nItem: ";
    begin_batch();
  } else {
    CHECK(kind == "noisy", "a workload that is not in the option table");
    next_prefix_ = shared_words(seed, 10, 250);
    begin_noisy();
  }
}

std::string Session::words(std::size_t count) {
  return random_words(rng_, count);
}

void Session::begin_chat() {
  turns_left_ = 4;
  next_words_ = 30;
  messages_.push_back({"user", words(next_words_)});
}

void Session::begin_rag() {
  turns_left_ = 1;
  messages_.push_back({"user", next_prefix_ + "Question: " + words(12) + "?"});
  next_prefix_.clear();
}

void Session::begin_agent() {
  turns_left_ = 6;
  next_words_ = 80;
  messages_.push_back({"user", "Task: " + words(40)});
  next_prefix_ = "Result of the call: ";
}

void Session::begin_batch() {
  turns_left_ = 1;
  messages_.push_back({"user", next_prefix_ + words(25)});
}

void Session::begin_noisy() {
  turns_left_ = 1;
  // Every request another time, session and user in front.
  const std::string head =
      str_cat("Time: 2026-01-01 12:", 10 + index_ % 50, ":", 10 + rng_.below(50), ". Session ",
              rng_.below(1'000'000'000), ". User ", rng_.below(100'000), ".\n");
  messages_.push_back({"system", head + next_prefix_});
  messages_.push_back({"user", words(15)});
}

bool Session::answered(std::string_view answer) {
  if (turns_left_ > 0) --turns_left_;
  if (turns_left_ == 0) return false;
  messages_.push_back({"assistant", std::string(answer)});
  messages_.push_back({"user", next_prefix_ + words(next_words_)});
  return true;
}

}  // namespace refrain::cli
