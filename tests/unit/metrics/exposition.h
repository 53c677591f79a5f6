// Exposition: a strict reader of the Prometheus text format, as far as tests need it. A line that
// breaks a rule becomes an entry in `faults`.
#pragma once

#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace refrain::test {

struct Exposition {
  std::map<std::string, std::string> types;  // family -> counter | gauge | histogram
  std::map<std::string, std::string> helps;
  std::map<std::string, double> samples;  // name{labels} -> value
  std::vector<std::string> faults;
};

inline Exposition read_exposition(const std::string& text) {
  static const std::regex kComment(R"(# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+))");
  static const std::regex kSample(
      R"(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="[^"]*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="[^"]*")*\})? (\S+))");
  Exposition page;
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch part;
    if (std::regex_match(line, part, kComment)) {
      auto& known = part[1] == "HELP" ? page.helps : page.types;
      if (!known.emplace(part[2], part[3]).second) page.faults.push_back("twice: " + line);
      family = part[2];
    } else if (std::regex_match(line, part, kSample)) {
      const std::string name = part[1];
      const std::string rest = name.rfind(family, 0) == 0 ? name.substr(family.size()) : "?";
      const bool belongs = page.types[family] == "histogram"
                               ? rest == "_bucket" || rest == "_sum" || rest == "_count"
                               : rest.empty();
      if (!belongs) page.faults.push_back("not under its own TYPE: " + line);
      const double value = part[3] == "+Inf" ? HUGE_VAL : std::stod(part[3]);
      if (!std::isfinite(value)) page.faults.push_back("not a number: " + line);
      if (!page.samples.emplace(name + part[2].str(), value).second)
        page.faults.push_back("duplicate: " + line);
    } else {
      page.faults.push_back("unreadable: " + line);
    }
  }
  if (text.empty() || text.back() != '\n') page.faults.emplace_back("no line end at the end");
  return page;
}

}  // namespace refrain::test
