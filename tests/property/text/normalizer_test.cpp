// Random texts of what the normalizer looks at: normalizing twice changes nothing, and noise of the
// kinds it removes does not show (A7).
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "text/normalizer.h"

namespace refrain::text {
namespace {

std::string pieces(const std::vector<std::string>& alphabet, int least, int most) {
  std::string text;
  const int count = *rc::gen::inRange(least, most + 1);
  for (int i = 0; i < count; ++i) text += *rc::gen::elementOf(alphabet);
  return text;
}

TEST(NormalizerProperty, NormalizingTwiceChangesNothing) {
  const std::vector<std::string> alphabet{
      "a",      "b",      " ",  "  ", "\t", "\n",   "\r\n",  "\r",   "    ",
      "\u3000", "\u00A0", "\"", "`",  "``", "```",  "~~~",   ">",    "＞",
      "～～～", "｀｀｀", "＂", "ｶ",  "ﾞ",  "ﾟ",    "Ａ",    "\xFF", "\u201C",
      "\u201D", "「",     "」", "｢",  "｣",  "\xE3", "\u201E"};
  EXPECT_TRUE(rc::check([&] {
    const std::string once = normalize(pieces(alphabet, 0, 60));
    RC_ASSERT(normalize(once) == once);
  }));
}

TEST(NormalizerProperty, NoiseDoesNotShow) {
  EXPECT_TRUE(rc::check([] {
    const int count = *rc::gen::inRange(1, 30);
    std::string clean, noisy = pieces({"\n", " \n", ""}, 0, 2);
    for (int i = 0; i < count; ++i) {
      const std::string word = *rc::gen::element<std::string>("river", "8", "Ab", "漢");
      clean += word;
      noisy += word == "8" && *rc::gen::arbitrary<bool>() ? "８" : word;
      if (i + 1 == count) break;
      if (*rc::gen::inRange(0, 4) > 0) {
        clean += ' ';
        noisy += pieces({" ", "\u3000", "\u00A0", "\t"}, 1, 3);
      } else {
        const bool paragraph = *rc::gen::arbitrary<bool>();
        clean += paragraph ? "\n\n" : "\n";
        noisy += pieces({" ", ""}, 0, 2) + *rc::gen::element<std::string>("\n", "\r\n");
        if (paragraph) noisy += pieces({"\n", " \r\n"}, 1, 3);
      }
    }
    noisy += pieces({" ", "\n", "\r\n"}, 0, 3);
    RC_ASSERT(normalize(noisy) == clean);
    RC_ASSERT(normalize(clean) == clean);
  }));
}

}  // namespace
}  // namespace refrain::text
