// The INI reader alone.
#include "cli/ini_file.h"

#include <gtest/gtest.h>

#include "cli/suggest.h"

namespace refrain::cli {
namespace {

TEST(IniFile, ReadsSectionsKeysCommentsAndQuotes) {
  const auto file = parse_ini(
      "\xEF\xBB\xBF# comment\r\n[server]\r\n host = ::1 ; behind a blank\r\nalias=\"a # b\" # c\n\n"
      "[ cache ]\nsuffix.enabled = true\napi#key = x#y\nempty =\n",
      "f.ini");
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->entries.size(), 5U);
  EXPECT_EQ(file->entries[0].key, "server.host");
  EXPECT_EQ(file->entries[0].value, "::1");
  EXPECT_EQ(file->entries[0].line, 3U);
  EXPECT_EQ(file->entries[1].value, "a # b");
  EXPECT_EQ(file->entries[2].key, "cache.suffix.enabled");
  EXPECT_EQ(file->entries[3].value, "x#y");
  EXPECT_EQ(file->entries[4].value, "");
}

TEST(IniFile, NamesTheLineOfWhatItCannotRead) {
  for (const auto& [text, line] :
       {std::pair<const char*, const char*>{"[server\nport = 1", "line 1"},
        {"[server]\nport", "line 2"},
        {"[]", "line 1"},
        {"= 3", "line 1"},
        {"\n\na = \"open", "line 3"},
        {"a = \"x\" y", "line 1"},
        {"a = \xff", "line 1"}}) {
    const auto file = parse_ini(text, "f.ini");
    ASSERT_FALSE(file.ok()) << text;
    EXPECT_EQ(file.error().code, Code::kInvalidArgument);
    EXPECT_NE(file.error().message.find(line), std::string::npos) << file.error().message;
    EXPECT_NE(file.error().message.find("f.ini"), std::string::npos);
  }
}

TEST(IniFile, RefusesANulCharacter) {
  EXPECT_FALSE(parse_ini(std::string_view("a = b\0c", 7), "f").ok());
}

TEST(Suggestion, CountsEditsAndSwapsOfNeighbours) {
  EXPECT_EQ(edit_distance("serve", "serve"), 0U);
  EXPECT_EQ(edit_distance("sevre", "serve"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Suggestion, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("polcy", {"policy", "port"}), "policy");
  EXPECT_EQ(nearest("zzzzzz", {"policy", "port"}), "");
  EXPECT_EQ(nearest("", {"policy"}), "");
  EXPECT_EQ(nearest(std::string(100'000, 'x'), {"policy"}), "");
}

}  // namespace
}  // namespace refrain::cli
