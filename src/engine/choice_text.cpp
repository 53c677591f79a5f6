#include "engine/choice_text.h"

#include <algorithm>
#include <utility>

namespace refrain::engine {

// The decoder holds back at most the tail of the newest token and of those before it that were
// shorter. An item is placed once the bytes held back all belong to later tokens.
void ChoiceText::place_items(std::size_t newest_bytes) {
  const std::size_t pending = decoder_.pending_bytes();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].end) continue;
    const bool newest = i + 1 == items_.size();
    if (pending == 0 || (!newest && pending <= newest_bytes)) items_[i].end = decoded_bytes_;
  }
}

ChoiceText::Release ChoiceText::push(std::string_view bytes, std::optional<TokenLogprob> item) {
  std::string text = decoder_.push(bytes);
  decoded_bytes_ += text.size();
  if (item) {
    items_.push_back(WaitingItem{std::move(*item), std::nullopt});
    place_items(bytes.size());
  }
  return release(stops_.push(text), /*last=*/false);
}

ChoiceText::Release ChoiceText::finish() {
  std::string text = decoder_.finish();
  decoded_bytes_ += text.size();
  text::StopMatcher::Step step = stops_.push(text);
  if (!step.stopped) step.released += stops_.finish();
  for (WaitingItem& waiting : items_)
    if (!waiting.end) waiting.end = decoded_bytes_;
  return release(std::move(step), /*last=*/true);
}

// Items whose text is out go along. At the end the rest belongs to a stop string: dropped, except
// for the part of an item that lies in front of it.
ChoiceText::Release ChoiceText::release(text::StopMatcher::Step step, bool last) {
  released_bytes_ += step.released.size();
  Release out{.text = std::move(step.released),
              .stopped = step.stopped,
              .matched = std::move(step.matched)};
  while (!items_.empty() && items_.front().end && *items_.front().end <= released_bytes_) {
    placed_bytes_ = *items_.front().end;
    out.logprobs.push_back(std::move(items_.front().item));
    items_.pop_front();
  }
  if (out.stopped && !items_.empty() && placed_bytes_ < released_bytes_) {
    TokenLogprob cut = std::move(items_.front().item);
    cut.bytes.resize(std::min<std::size_t>(cut.bytes.size(), released_bytes_ - placed_bytes_));
    out.logprobs.push_back(std::move(cut));
  }
  if (out.stopped || last) items_.clear();
  return out;
}

}  // namespace refrain::engine
