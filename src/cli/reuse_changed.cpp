// Generated cases whose answer is a fact that has changed since the text behind it was computed.
// Any thread.
#include <algorithm>
#include <array>
#include <utility>

#include "base/rng.h"
#include "base/str.h"
#include "cli/invented_text.h"
#include "cli/reuse_cases.h"

namespace refrain::cli {
namespace {

constexpr std::string_view kSystem =
    "You answer questions about the place you are told about. Answer with what is asked for alone.";
constexpr std::string_view kOtherQuestion = "How many sentences about the main hall are there?";
constexpr std::size_t kFacts = 4;

// What cases differ in beside their facts; all combinations take turns.
struct Form {
  std::size_t asked = 0;  // index of the fact
  bool conversation = false;
  bool repeated = false;     // a later sentence states the fact again
  bool asked_before = true;  // by the request that came before
};

Form form_of(std::size_t index) {
  return {.asked = index % kFacts,
          .conversation = index / kFacts % 2 == 1,
          .repeated = index / (2 * kFacts) % 2 == 1,
          .asked_before = index / (4 * kFacts) % 2 == 0};
}

std::string invented_value(Rng& rng, std::size_t fact) {
  constexpr auto kStatuses = std::to_array<std::string_view>(
      {"open", "closed", "under repair", "for sale", "flooded", "empty", "rented out"});
  constexpr auto kMonths = std::to_array<std::string_view>(
      {"January", "March", "April", "June", "August", "October", "December"});
  switch (fact) {
    case 0:
      return pick(rng, kStatuses);
    case 1:
      return number(rng, 11, 150) + " crowns";
    case 2: {
      const std::string day = number(rng, 1, 29);
      return str_cat(day, " ", pick(rng, kMonths));
    }
    default:
      return invented_person(rng);
  }
}

std::string statement(const std::string& place, std::size_t fact, const std::string& value) {
  constexpr auto kBegin =
      std::to_array<std::string_view>({"The current status of the ", "A ticket to the ",
                                       "The next inspection of the ", "The keeper of the "});
  constexpr auto kVerb = std::to_array<std::string_view>({" is: ", " costs ", " is on ", " is "});
  return str_cat(kBegin[fact], place, kVerb[fact], value, ".");
}

std::string question(const std::string& place, std::size_t fact) {
  constexpr auto kBegin = std::to_array<std::string_view>(
      {"What is the current status of the ", "What does a ticket to the ",
       "On which day is the next inspection of the ", "Who is the keeper of the "});
  return str_cat(kBegin[fact], place, fact == 1 ? " cost?" : "?");
}

struct Place {
  std::string name;
  std::array<std::string, kFacts> values;
  std::vector<std::string> sentences;  // what follows; about 23 tokens each
};

Place make_place(Rng& rng) {
  Place place{.name = invented_place(rng), .values = {}, .sentences = {}};
  for (std::size_t fact = 0; fact < kFacts; ++fact) place.values[fact] = invented_value(rng, fact);
  const std::size_t count = 20 + rng.below(25);
  for (std::size_t i = 0; i < count; ++i)
    place.sentences.push_back(invented_sentence(rng, "the " + place.name, rng.below(12)));
  return place;
}

std::string statements(const Place& place) {
  std::string all;
  for (std::size_t fact = 0; fact < kFacts; ++fact)
    all += statement(place.name, fact, place.values[fact]) + " ";
  return all;
}

std::string joined(const Place& place, std::size_t begin, std::size_t end) {
  std::string all;
  for (std::size_t i = begin; i < end; ++i) all += place.sentences[i] + " ";
  return all;
}

Messages record(const Place& place, const Form& form, std::string_view asked) {
  const std::size_t half = place.sentences.size() / 2;
  std::string content =
      str_cat("Record of the ", place.name, "\n", statements(place), joined(place, 0, half));
  if (form.repeated) content += statement(place.name, form.asked, place.values[form.asked]) + " ";
  content += str_cat(joined(place, half, place.sentences.size()), "\n\n", asked);
  return {{.role = "system", .content = std::string(kSystem)},
          {.role = "user", .content = std::move(content)}};
}

Messages conversation(const Place& place, const Form& form, std::string_view asked) {
  constexpr std::size_t kSentencesOfAReply = 6;
  Messages messages = {{.role = "system", .content = std::string(kSystem)},
                       {.role = "user", .content = "Please note: " + statements(place)}};
  std::string noted = "I have noted that.";
  if (form.repeated) noted += " " + statement(place.name, form.asked, place.values[form.asked]);
  messages.push_back({.role = "assistant", .content = std::move(noted)});
  for (std::size_t at = 0; at < place.sentences.size(); at += kSentencesOfAReply) {
    messages.push_back({.role = "user", .content = "What else is known about it?"});
    const std::size_t end = std::min(at + kSentencesOfAReply, place.sentences.size());
    messages.push_back({.role = "assistant", .content = joined(place, at, end)});
  }
  messages.push_back({.role = "user", .content = std::string(asked)});
  return messages;
}

ReuseCase make_changed(Rng& rng, const Form& form) {
  Place place = make_place(rng);
  const auto request = [&](std::string_view asked) {
    return form.conversation ? conversation(place, form, asked) : record(place, form, asked);
  };
  const std::string asked = question(place.name, form.asked);
  ReuseCase made{.kind = ReuseKind::kChanged, .warm = {}, .target = {}};
  ChangedValue& changed = made.changed.emplace();
  std::string& value = place.values[form.asked];
  changed.old_value = value;
  changed.before = request(asked);
  made.warm.push_back(form.asked_before ? changed.before : request(kOtherQuestion));
  while (value == changed.old_value) value = invented_value(rng, form.asked);
  changed.new_value = value;
  made.target = request(asked);
  return made;
}

}  // namespace

std::vector<ReuseCase> generate_changed_cases(std::uint64_t seed, std::size_t count) {
  std::vector<ReuseCase> cases;
  for (std::size_t i = 0; i < count; ++i) {
    Rng rng(seed * 1'000'003 + 700'000 + i);
    cases.push_back(make_changed(rng, form_of(i)));
  }
  return cases;
}

}  // namespace refrain::cli
