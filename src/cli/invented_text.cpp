// See invented_text.h.
#include "cli/invented_text.h"

#include "base/str.h"

namespace refrain::cli {

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

std::string invented_place(Rng& rng) {
  constexpr auto kKinds = std::to_array<std::string_view>({"lighthouse", "mill", "observatory",
                                                           "harbour", "railway station", "theatre",
                                                           "glassworks", "botanical garden"});
  const std::string kind = pick(rng, kKinds);
  return str_cat(invented_name(rng), " ", kind);
}

std::string invented_sentence(Rng& rng, const std::string& place, std::size_t pattern) {
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

}  // namespace refrain::cli
