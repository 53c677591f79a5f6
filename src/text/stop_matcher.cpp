// StopMatcher: one automaton per stop string, fed byte by byte. Engine thread.
#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace refrain::text {
namespace {

// Length of the longest prefix of `text` that ends `text[0, matched) + byte`; matched < size.
std::size_t advance(std::string_view text, const std::vector<std::size_t>& border,
                    std::size_t matched, char byte) {
  while (matched > 0 && text[matched] != byte) matched = border[matched - 1];
  return text[matched] == byte ? matched + 1 : 0;
}

std::vector<std::size_t> borders(std::string_view text) {
  std::vector<std::size_t> border(text.size(), 0);
  for (std::size_t i = 1; i < text.size(); ++i)
    border[i] = advance(text, border, border[i - 1], text[i]);
  return border;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    CHECK(!text.empty(), "an empty stop string would match everywhere");
    std::vector<std::size_t> border = borders(text);
    stops_.push_back({std::move(text), std::move(border), 0});
  }
}

//   held_ + text read so far:  [ released ][ longest beginning of a stop string: held ]
StopMatcher::Step StopMatcher::push(std::string_view text) {
  std::string stream = std::exchange(held_, {});
  for (const char byte : text) {
    stream.push_back(byte);
    const Stop* complete = nullptr;
    for (Stop& stop : stops_) {
      stop.matched = advance(stop.text, stop.border, stop.matched, byte);
      const bool longer = complete == nullptr || stop.text.size() > complete->text.size();
      if (stop.matched == stop.text.size() && longer) complete = &stop;
    }
    if (complete == nullptr) continue;
    stream.resize(stream.size() - complete->text.size());
    return {std::move(stream), true, complete->text};
  }
  std::size_t held = 0;
  for (const Stop& stop : stops_) held = std::max(held, stop.matched);
  held_ = stream.substr(stream.size() - held);
  stream.resize(stream.size() - held);
  return {std::move(stream), false, {}};
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace refrain::text
