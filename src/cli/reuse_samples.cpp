// Generated cases: reports about invented places with made-up facts. Any thread.
#include <array>
#include <numeric>

#include "base/rng.h"
#include "base/str.h"
#include "cli/invented_text.h"
#include "cli/reuse_cases.h"

namespace refrain::cli {
namespace {

constexpr std::string_view kSystem =
    "You answer questions about the reports you are given. Use only what they say, and answer in "
    "one or two sentences.";
constexpr std::size_t kReports = 6;
constexpr std::size_t kSentences = 21;  // of a report, about 23 tokens each

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

Report make_report(Rng& rng) {
  Report report;
  report.name = invented_place(rng);
  report.title = str_cat("Report ", number(rng, 100, 999), ": the ", report.name);
  report.opened = number(rng, 1780, 1930);
  report.engineer = invented_person(rng);
  const std::string place = str_cat("the ", report.name);
  for (std::size_t i = 0; i < kSentences; ++i) {
    report.sentences.push_back(invented_sentence(rng, place, rng.below(12)));
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

std::string question_about(Rng& rng, const Report& a, const Report& b) {
  switch (rng.below(3)) {
    case 0:
      return str_cat("Which was opened first, the ", a.name, " or the ", b.name,
                     ", and in which year?");
    case 1:
      return str_cat("Who planned the ", a.name, ", and when was it opened?");
    default:
      return str_cat("Name the engineers of the ", a.name, " and of the ", b.name, ".");
  }
}

std::string question(Rng& rng, const std::vector<Report>& reports) {
  const std::size_t a = rng.below(kReports), b = (a + 1 + rng.below(kReports - 1)) % kReports;
  return question_about(rng, reports[a], reports[b]);
}

ReuseCase recombined_of(Rng& rng, const std::vector<Report>& reports) {
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

ReuseCase make_recombined(Rng& rng) {
  const std::vector<Report> reports = make_reports(rng);
  return recombined_of(rng, reports);
}

// The first question is about two reports, the second one about two others.
ReuseCase make_next_turn(Rng& rng) {
  const std::vector<Report> reports = make_reports(rng);
  ReuseCase made = recombined_of(rng, reports);
  made.kind = ReuseKind::kNextTurn;
  std::vector<const Report*> others;
  const std::string& asked = made.target.back().content;
  const std::string_view last_line = std::string_view(asked).substr(asked.rfind('\n') + 1);
  for (const Report& report : reports)
    if (last_line.find(report.name) == std::string_view::npos) others.push_back(&report);
  made.first_turn = made.target;
  made.target.push_back(
      {.role = "assistant", .content = "The reports name the engineers, and the years."});
  made.target.push_back({.role = "user", .content = question_about(rng, *others[0], *others[1])});
  return made;
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
  sentences[at] = invented_sentence(rng, str_cat("the ", reports[1].name), rng.below(12));
  sentences.erase(sentences.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  made.target = request();
  return made;
}

ReuseCase make_copied(Rng& rng) {
  constexpr std::size_t kFew = 3;
  std::vector<Report> reports = make_reports(rng);
  reports.resize(kFew);
  RecombinedSource source;
  source.system = "You repeat texts exactly as they stand.";
  for (const Report& report : reports) source.documents.push_back(report.text());
  source.warm_orders.push_back({2, 0, 1});
  const Report& asked = reports[rng.below(kFew)];
  source.question = str_cat("Repeat the report about the ", asked.name,
                            " word for word, from its first sentence on.");
  ReuseCase made = recombined_case(source);
  made.kind = ReuseKind::kCopied;
  made.passage = asked.text().substr(asked.title.size() + 1);
  return made;
}

// Case i of a kind depends on the seed, i and where the kind's numbers begin.
void add_cases(std::vector<ReuseCase>& cases, std::size_t count, std::uint64_t seed,
               std::uint64_t kind_begin, ReuseCase (*make)(Rng&)) {
  for (std::size_t i = 0; i < count; ++i) {
    Rng rng(seed * 1'000'003 + kind_begin + i);
    cases.push_back(make(rng));
  }
}

}  // namespace

std::vector<ReuseCase> generate_copied_cases(std::uint64_t seed, std::size_t count) {
  std::vector<ReuseCase> cases;
  add_cases(cases, count, seed, 800'000, make_copied);
  return cases;
}

std::vector<ReuseCase> generate_next_turn_cases(std::uint64_t seed, std::size_t count) {
  std::vector<ReuseCase> cases;
  add_cases(cases, count, seed, 900'000, make_next_turn);
  return cases;
}

std::vector<ReuseCase> generate_reuse_cases(std::uint64_t seed, std::size_t count) {
  std::vector<ReuseCase> cases;
  add_cases(cases, count, seed, 0, make_recombined);
  add_cases(cases, count, seed, 500'000, make_edited);
  return cases;
}

}  // namespace refrain::cli
