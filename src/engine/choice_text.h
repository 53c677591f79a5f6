// ChoiceText: the text of one choice on its way out: token bytes -> well-formed UTF-8 -> stop
// strings -> what may be sent. Logprob items leave together with the text of their token, never
// earlier, so that joined items and joined text agree. One per choice; engine thread.
//
//   text released     "four fi"|         held back, could become the stop string "five six"
//   items released    four, fi  |        an item whose text ends behind the bar waits
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "text/stop_matcher.h"
#include "text/text_decoder.h"

namespace refrain::engine {

class ChoiceText {
 public:
  explicit ChoiceText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  struct Release {
    std::string text;
    std::vector<TokenLogprob> logprobs;
    bool stopped = false;      // a stop string is complete; push no more
    std::string matched = {};  // which one
  };
  // The bytes of one more token and, if asked for, its logprob item.
  Release push(std::string_view bytes, std::optional<TokenLogprob> item);
  // The end without a stop string so far; what was held back may still complete one.
  Release finish();

 private:
  // An item and where its text ends in the decoded stream; unknown while the token's last code
  // point is incomplete.
  struct WaitingItem {
    TokenLogprob item;
    std::optional<std::uint64_t> end;
  };

  Release release(text::StopMatcher::Step step, bool last);
  void place_items(std::size_t newest_bytes);

  text::TextDecoder decoder_;
  text::StopMatcher stops_;
  std::deque<WaitingItem> items_;
  std::uint64_t decoded_bytes_ = 0;   // left the decoder
  std::uint64_t released_bytes_ = 0;  // left the stop matcher
  std::uint64_t placed_bytes_ = 0;    // end of the last item that left
};

}  // namespace refrain::engine
