// Runs of equal tokens. Any thread.
#include "cli/run_search.h"

#include <algorithm>
#include <span>

namespace refrain::cli {
namespace {

constexpr std::size_t kWindow = 32;  // tokens hashed together; shorter than the least run
// Candidates of a window: text that repeats itself stays linear.
constexpr std::size_t kMostPlaces = 8;

Hash128 window_hash(const TokenList& tokens, std::size_t at) {
  return hash_bytes(std::as_bytes(std::span(tokens).subspan(at, kWindow)));
}

}  // namespace

void RunSearch::add(TokenList tokens) {
  for (std::size_t at = 0; at + kWindow <= tokens.size(); ++at) {
    std::vector<Place>& places = places_[window_hash(tokens, at)];
    if (places.size() < kMostPlaces) places.push_back({stored_.size(), at});
  }
  stored_.push_back(std::move(tokens));
}

std::uint32_t RunSearch::equal_tokens(const TokenList& prompt, std::size_t at, std::size_t stored,
                                      std::size_t from) const {
  const TokenList& other = stored_[stored];
  std::size_t count = 0;
  while (at + count + 1 < prompt.size() && from + count < other.size() &&
         prompt[at + count] == other[from + count]) {
    ++count;
  }
  return static_cast<std::uint32_t>(count);
}

FoundRun RunSearch::longest_prefix(const TokenList& prompt) const {
  FoundRun best;
  for (std::size_t stored = 0; stored < stored_.size(); ++stored) {
    const std::uint32_t length = equal_tokens(prompt, 0, stored, 0);
    if (length > best.length) best = {stored, 0, 0, length};
  }
  return best;
}

FoundRun RunSearch::longest_at(const TokenList& prompt, std::size_t at) const {
  FoundRun best;
  const auto found = places_.find(window_hash(prompt, at));
  if (found == places_.end()) return best;
  for (const Place& place : found->second) {
    const std::uint32_t length = equal_tokens(prompt, at, place.stored, place.from);
    if (length > best.length) {
      best = {place.stored, static_cast<Position>(place.from), static_cast<Position>(at), length};
    }
  }
  return best;
}

FoundTokens RunSearch::find(const TokenList& prompt) const {
  FoundTokens found{.prefix = longest_prefix(prompt), .runs = {}};
  for (std::size_t at = found.prefix.length; at + kWindow <= prompt.size();) {
    const FoundRun run = longest_at(prompt, at);
    if (run.length < kLeastRun) {
      ++at;
      continue;
    }
    found.runs.push_back(run);
    at += run.length;
  }
  return found;
}

}  // namespace refrain::cli
