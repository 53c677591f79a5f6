// StopMatcher: finds stop strings in streamed text, also when they span pieces. Text that could
// still become a stop string is held back; nothing of a stop string is ever released, and
// nothing in front of it is lost. The match that is complete first wins, of several that end at
// the same byte the longest: so the outcome does not depend on how the text is cut into pieces.
// Linear time (Knuth, Morris & Pratt 1977 for each stop string). One per choice, engine thread.
//
//   StopMatcher stop({"five six"});
//   stop.push("four fi")  -> released "four ", not stopped (holds "fi")
//   stop.push("ve six")   -> released "", stopped
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace refrain::text {

class StopMatcher {
 public:
  // Empty stop strings must have been refused before.
  explicit StopMatcher(std::vector<std::string> stops);

  struct Step {
    std::string released;      // safe to send now
    bool stopped = false;      // a stop string is complete; feed no more
    std::string matched = {};  // which one
  };
  Step push(std::string_view text);
  // End of generation without a stop: what was held back.
  std::string finish();

  bool empty() const { return stops_.empty(); }

 private:
  struct Stop {
    std::string text;
    std::vector<std::size_t> border;  // [i]: longest proper prefix of text[0..i] that ends it too
    std::size_t matched = 0;          // bytes of `text` that the stream ends with now
  };
  std::vector<Stop> stops_;
  std::string held_;  // end of the stream that may still become a stop string
};

}  // namespace refrain::text
