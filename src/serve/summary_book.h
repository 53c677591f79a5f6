// SummaryBook: what was concluded of which beginning of a conversation, and of which a summary is
// being made. Bounded by the bytes of its texts; the ones unused for longest go. In memory only: a
// summary is private text. Any thread.
//
//   if (book.begin(key)) { ... ask the model ...; book.finish(key, conclusion); }   // or give_up
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/hash.h"

namespace refrain::serve {

struct Conclusion {
  std::string text;
  std::uint32_t summary_tokens = 0;   // what it takes in a prompt, with its request
  std::uint32_t replaced_tokens = 0;  // what it stands for, over all summaries before it
  std::uint32_t section = 1;          // of the session that goes on with it
};

class SummaryBook {
 public:
  static constexpr std::size_t kEntryBytes = 128;  // of an entry beside its text

  explicit SummaryBook(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // Marks it as used.
  std::optional<Conclusion> find(const Hash128& key);
  bool is_being_made(const Hash128& key) const;
  // False if there is one already, or one is being made.
  bool begin(const Hash128& key);
  void finish(const Hash128& key, Conclusion conclusion);
  // It failed, and may be begun again. One that is finished stays.
  void give_up(const Hash128& key);
  std::size_t bytes() const;

 private:
  struct Entry {
    Hash128 key;
    std::optional<Conclusion> conclusion;  // none: being made
    std::size_t bytes() const { return conclusion ? conclusion->text.size() + kEntryBytes : 0; }
  };
  using Entries = std::list<Entry>;  // the one used last in front
  void drop_oldest();

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::size_t bytes_ = 0;
  Entries entries_;
  std::unordered_map<Hash128, Entries::iterator, Hash128Hasher> by_key_;
};

}  // namespace refrain::serve
