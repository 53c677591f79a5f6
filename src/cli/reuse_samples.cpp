// Generated cases: reports about invented places with made-up facts. Any thread.
#include <array>
#include <numeric>

#include "base/rng.h"
#include "base/str.h"
#include "cli/reuse_cases.h"

namespace refrain::cli {
namespace {

constexpr std::string_view kSystem =
    "You answer questions about the reports you are given. Use only what they say, and answer in "
    "one or two sentences.";
constexpr std::size_t kReports = 6;
constexpr std::size_t kSentences = 21;  // of a report, about 23 tokens each

template <std::size_t Count>
std::string pick(Rng& rng, const std::array<std::string_view, Count>& words) {
  return std::string(words[rng.below(Count)]);
}

std::string invented_name(Rng& rng) {
  constexpr auto kFirst = std::to_array<std::string_view>(
      {"Bel", "Cor", "Dra", "Fen", "Gal", "Hol", "Mar", "Nor", "Ost", "Per", "Quen", "Tir", "Vel"});
  constexpr auto kMiddle =
      std::to_array<std::string_view>({"a", "e", "i", "o", "an", "er", "il", "or", "un"});
  constexpr auto kLast = std::to_array<std::string_view>(
      {"dale", "ford", "gate", "haven", "mere", "mont", "stead", "ton", "wick", "worth"});
  std::string name = pick(rng, kFirst);
  name += pick(rng, kMiddle);
  return name + pick(rng, kLast);
}

std::string number(Rng& rng, std::uint64_t low, std::uint64_t high) {
  return std::to_string(low + rng.below(high - low));
}

std::string invented_person(Rng& rng) {
  constexpr auto kGiven = std::to_array<std::string_view>(
      {"Adela", "Bruno", "Clara", "Dario", "Edith", "Felix", "Greta", "Hugo", "Irma", "Jonas"});
  return str_cat(pick(rng, kGiven), " ", invented_name(rng));
}

struct Report {
  std::string name;
  std::string title;
  std::string opened;  // year
  std::string engineer;
  std::vector<std::string> sentences;

  std::string text() const {
    std::string all = title + "\n";
    for (const std::string& sentence : sentences) all += sentence + " ";
    all.pop_back();
    return all;
  }
};

// A sentence about a report's place, from one of the patterns.
std::string sentence(Rng& rng, const std::string& place, std::size_t pattern) {
  constexpr auto kMonths = std::to_array<std::string_view>(
      {"January", "March", "April", "June", "August", "October", "December"});
  constexpr auto kWeather =
      std::to_array<std::string_view>({"storms", "floods", "frost", "a dry summer", "heavy snow"});
  constexpr auto kGoods =
      std::to_array<std::string_view>({"timber", "grain", "copper", "wool", "glass", "salt"});
  switch (pattern % 12) {
    case 0:
      return str_cat("In ", pick(rng, kMonths), " of ", number(rng, 1890, 1990), " the council of ",
                     place, " voted to spend ", number(rng, 12, 90),
                     " thousand crowns on repairs.");
    case 1:
      return str_cat("A survey by ", invented_person(rng), " counted ", number(rng, 140, 980),
                     " visitors on a single day, more than in the whole month before.");
    case 2:
      return str_cat("After ", pick(rng, kWeather), " in ", number(rng, 1900, 1999), " about ",
                     number(rng, 3, 40), " metres of the eastern wall had to be built again.");
    case 3:
      return str_cat("The warehouse next to it stored ", pick(rng, kGoods), " and ",
                     pick(rng, kGoods), " until the road to ", invented_name(rng), " was closed.");
    case 4:
      return str_cat("According to the register, ", number(rng, 11, 75), " people worked at ",
                     place, " that year, and ", number(rng, 2, 10),
                     " of them lived on the grounds.");
    case 5:
      return str_cat("Letters to ", invented_person(rng), " mention a dispute over ",
                     number(rng, 20, 400), " barrels of ", pick(rng, kGoods),
                     " that never arrived.");
    case 6:
      return str_cat("The main hall is ", number(rng, 18, 66), " metres long and ",
                     number(rng, 7, 17), " metres wide, with windows on the side of the river.");
    case 7:
      return str_cat("Since ", number(rng, 1950, 2015), " the site has belonged to a society that ",
                     invented_person(rng), " founded with ", number(rng, 4, 30), " members.");
    case 8:
      return str_cat("Its bell was cast in ", invented_name(rng), " and weighs ",
                     number(rng, 200, 2900), " kilograms, which made the journey difficult.");
    case 9:
      return str_cat("The road from ", place, " to ", invented_name(rng), " is ",
                     number(rng, 6, 58), " kilometres long and crosses ", number(rng, 2, 9),
                     " bridges.");
    case 10:
      return str_cat("A fire in ", pick(rng, kMonths), " ", number(rng, 1880, 1960),
                     " destroyed the archive, but ", invented_person(rng), " had copied ",
                     number(rng, 50, 700), " pages of it.");
    default:
      return str_cat("Guides explain that the tower leans by ", number(rng, 3, 38),
                     " centimetres because of ", pick(rng, kWeather), " during its construction.");
  }
}

Report make_report(Rng& rng) {
  constexpr auto kKinds = std::to_array<std::string_view>({"lighthouse", "mill", "observatory",
                                                           "harbour", "railway station", "theatre",
                                                           "glassworks", "botanical garden"});
  Report report;
  const std::string kind = pick(rng, kKinds);
  report.name = str_cat(invented_name(rng), " ", kind);
  report.title = str_cat("Report ", number(rng, 100, 999), ": the ", report.name);
  report.opened = number(rng, 1780, 1930);
  report.engineer = invented_person(rng);
  const std::string place = str_cat("the ", report.name);
  for (std::size_t i = 0; i < kSentences; ++i) {
    report.sentences.push_back(sentence(rng, place, rng.below(12)));
  }
  report.sentences[0] = str_cat("The ", report.name, " was opened in ", report.opened, ".");
  report.sentences[kSentences / 2] =
      str_cat("The ", report.name, " was planned by the engineer ", report.engineer, ".");
  return report;
}

std::vector<Report> make_reports(Rng& rng) {
  std::vector<Report> reports;
  reports.reserve(kReports);
  for (std::size_t i = 0; i < kReports; ++i) reports.push_back(make_report(rng));
  return reports;
}

std::string question(Rng& rng, const std::vector<Report>& reports) {
  const std::size_t a = rng.below(kReports), b = (a + 1 + rng.below(kReports - 1)) % kReports;
  switch (rng.below(3)) {
    case 0:
      return str_cat("Which was opened first, the ", reports[a].name, " or the ", reports[b].name,
                     ", and in which year?");
    case 1:
      return str_cat("Who planned the ", reports[a].name, ", and when was it opened?");
    default:
      return str_cat("Name the engineers of the ", reports[a].name, " and of the ", reports[b].name,
                     ".");
  }
}

ReuseCase make_recombined(Rng& rng) {
  const std::vector<Report> reports = make_reports(rng);
  RecombinedSource source;
  source.system = kSystem;
  for (const Report& report : reports) source.documents.push_back(report.text());
  // No document keeps its left neighbour or its place.
  std::vector<std::size_t> order(kReports);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  std::swap(order[0], order[1 + rng.below(kReports - 1)]);
  source.warm_orders.push_back(std::move(order));
  source.question = question(rng, reports);
  return recombined_case(source);
}

// About 40 tokens in the first third are replaced by about 25.
ReuseCase make_edited(Rng& rng) {
  std::vector<Report> reports = make_reports(rng);
  const std::string asked = question(rng, reports);
  const auto request = [&] {
    std::string content;
    for (const Report& report : reports) content += report.text() + "\n\n";
    return Messages{{.role = "system", .content = std::string(kSystem)},
                    {.role = "user", .content = content + asked}};
  };
  ReuseCase made{.kind = ReuseKind::kEdited, .warm = {request()}, .target = {}};
  std::vector<std::string>& sentences = reports[1].sentences;
  const std::size_t at = 3 + rng.below(5);
  sentences[at] = sentence(rng, str_cat("the ", reports[1].name), rng.below(12));
  sentences.erase(sentences.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  made.target = request();
  return made;
}

}  // namespace

std::vector<ReuseCase> generate_reuse_cases(std::uint64_t seed, std::size_t count) {
  std::vector<ReuseCase> cases;
  for (std::size_t i = 0; i < count; ++i) {
    Rng rng(seed * 1'000'003 + i);
    cases.push_back(make_recombined(rng));
  }
  for (std::size_t i = 0; i < count; ++i) {
    Rng rng(seed * 1'000'003 + 500'000 + i);
    cases.push_back(make_edited(rng));
  }
  return cases;
}

}  // namespace refrain::cli
