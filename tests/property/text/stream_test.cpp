// However the bytes are cut: TextDecoder gives the same text (O-17), StopMatcher the outcome of a
// naive search over the whole text (O-18).
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/str.h"
#include "text/stop_matcher.h"
#include "text/text_decoder.h"

namespace refrain::text {
namespace {

// Cuts `text` into pieces, some of them empty.
std::vector<std::string> random_pieces(const std::string& text) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size();) {
    if (*rc::gen::arbitrary<bool>()) pieces.emplace_back();
    const auto length = *rc::gen::inRange<std::size_t>(1, 7);
    pieces.push_back(text.substr(at, length));
    at += length;
  }
  return pieces;
}

// Whole, cut and damaged characters of every length.
std::string random_bytes() {
  static const std::vector<std::string> kParts = {
      "a",    "é",    "漢",       "🦙",       "\xF0\x9F", "\xE6\xBC", "\xC3",
      "\x80", "\xFF", "\xC0\x80", "\xED\xA0", "\xF4\x90", "\xF0",     "\xF0\x9F\xA6"};
  std::string text;
  for (const auto& part : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(kParts)))
    text += part;
  return text;
}

RC_GTEST_PROP(TextDecoder, any_cut_gives_the_text_of_all_bytes_at_once, ()) {
  const std::string bytes = random_bytes();
  TextDecoder decoder;
  std::string joined;
  for (const std::string& piece : random_pieces(bytes)) {
    const std::string out = decoder.push(piece);
    RC_ASSERT(is_valid_utf8(out));
    RC_ASSERT(decoder.pending_bytes() <= 3U);
    joined += out;
  }
  joined += decoder.finish();
  RC_ASSERT(joined == to_valid_utf8(bytes));
}

// Text before the stop string that is complete first (the longest of several), and that string.
std::pair<std::string, std::string> naive_search(const std::string& text,
                                                 const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops)
      if (stop.size() > best.size() && text.substr(0, end).ends_with(stop)) best = stop;
    if (!best.empty()) return {text.substr(0, end - best.size()), best};
  }
  return {text, ""};
}

RC_GTEST_PROP(StopMatcher, equals_the_naive_search_whatever_the_pieces, ()) {
  // A small alphabet, so that near misses and overlaps are frequent.
  const auto word = [](int length_min, int length_max) {
    const auto length = *rc::gen::inRange(length_min, length_max);
    return *rc::gen::container<std::string>(static_cast<std::size_t>(length),
                                            rc::gen::elementOf(std::string("aab")));
  };
  const std::string text = word(0, 60);
  std::vector<std::string> stops;
  const int count = *rc::gen::inRange(0, 5);
  for (int i = 0; i < count; ++i) stops.push_back(word(1, 9));

  StopMatcher matcher(stops);
  std::string out;
  std::string matched;
  std::size_t fed = 0;
  const std::size_t longest =
      stops.empty() ? 1 : std::max_element(stops.begin(), stops.end(), [](auto& a, auto& b) {
                            return a.size() < b.size();
                          })->size();
  for (const std::string& piece : random_pieces(text)) {
    const StopMatcher::Step step = matcher.push(piece);
    out += step.released;
    fed += piece.size();
    if (step.stopped) {
      matched = step.matched;
      break;
    }
    RC_ASSERT(fed - out.size() < longest);  // holds back no more than may become a stop string
  }
  if (matched.empty()) out += matcher.finish();
  const auto [wanted_text, wanted_match] = naive_search(text, stops);
  RC_ASSERT(matched == wanted_match);
  RC_ASSERT(out == wanted_text);
}

}  // namespace
}  // namespace refrain::text
