// Keys as users write them (O-23: blanks and line breaks around a key).
#include "cli/api_keys.h"

#include <gtest/gtest.h>

namespace refrain::cli {
namespace {

TEST(ApiKey, IsAKeyOrATenantAndAKey) {
  EXPECT_EQ(parse_api_key("secret", 3)->key, "secret");
  EXPECT_EQ(parse_api_key("secret", 3)->tenant, "key-3");
  EXPECT_EQ(parse_api_key("support=abc", 1)->tenant, "support");
  EXPECT_EQ(parse_api_key("support=abc=d", 1)->key, "abc=d");
}

TEST(ApiKey, LosesBlanksAndLineBreaksAroundIt_O23) {
  EXPECT_EQ(parse_api_key("  secret\r\n", 1)->key, "secret");
}

TEST(ApiKey, MayEndInBase64Padding) {
  EXPECT_EQ(parse_api_key("c2VjcmV0c2VjcmV0cw==", 1)->key, "c2VjcmV0c2VjcmV0cw==");
  EXPECT_EQ(parse_api_key("t=c2VjcmV0cw==", 1)->key, "c2VjcmV0cw==");
}

TEST(ApiKey, RefusesWhatIsEmptyOrUnprintableWithoutRepeatingIt) {
  for (const char* text : {"", "  ", "support=", "=abc", "a b", "a\x01", "te nant=abc"}) {
    const auto key = parse_api_key(text, 2);
    ASSERT_FALSE(key.ok()) << text;
    EXPECT_EQ(key.error().message.find("abc"), std::string::npos);
    EXPECT_NE(key.error().message.find("number 2"), std::string::npos);
  }
}

}  // namespace
}  // namespace refrain::cli
