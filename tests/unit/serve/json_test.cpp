// JSON of clients: what comes in is a bounded tree that goes out as it came, or an error.
#include "serve/json.h"

#include <gtest/gtest.h>

#include <string>

#include "base/str.h"
#include "serve/error_shape.h"
#include "serve/json_writer.h"

namespace refrain::serve {
namespace {

TEST(Json, keeps_order_and_64_bit_numbers_through_a_round_trip) {
  const std::string text =
      R"({"b":[1,-2,18446744073709551615,0.5,2.0],"a":{"x":null,"y":true},"s":"\u0000é\"\n"})";
  const Result<Json> json = parse_json(text);
  ASSERT_TRUE(json.ok()) << json.error().message;
  const std::string again = to_text(*json);
  EXPECT_EQ(
      again,
      R"({"b":[1,-2,18446744073709551615,0.5,2.0],"a":{"x":null,"y":true},"s":"\u0000é\"\n"})");
  EXPECT_EQ(to_text(*parse_json(again)), again);
}

TEST(Json, takes_the_last_of_two_members_of_one_name) {
  EXPECT_EQ(to_text(*parse_json(R"({"a":1,"a":2})")->find("a")), "2");
}

TEST(Json, refuses_bad_bodies_with_a_message_that_is_valid_utf8) {  // O-31
  const std::string bodies[] = {"",
                                "  \n",
                                "{",
                                "{\"a\":",
                                "\xFF\xFE{}",
                                "{\"a\":\"\xFF\xFE\"}",
                                "{\"a\":\"\xC0\x80\"}",
                                "{\"a\":\"\xC4\xE3\xBA\xC3\"}",  // GBK
                                R"({"a":"\ud800"})",
                                R"({"a":"\udc00x"})",
                                "{\"a\":NaN}",
                                "{\"a\":1}}",
                                std::string("{\"a\":\0}", 7)};
  for (const std::string& body : bodies) {
    const Result<Json> json = parse_json(body);
    ASSERT_FALSE(json.ok()) << body;
    EXPECT_EQ(json.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(is_valid_utf8(error_body(json.error())));
    EXPECT_TRUE(parse_json(error_body(json.error())).ok());
  }
}

TEST(Json, accepts_a_byte_order_mark_and_nul_characters) {  // O-31
  EXPECT_TRUE(parse_json("\xEF\xBB\xBF{\"a\":1}").ok());
  const Result<Json> json = parse_json(R"({"a":"x\u0000y"})");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->find("a")->text()->size(), 3U);
}

TEST(Json, bounds_depth_and_number_of_values) {
  EXPECT_TRUE(parse_json(std::string(64, '[') + std::string(64, ']')).ok());
  EXPECT_EQ(parse_json(std::string(65, '[') + std::string(65, ']')).error().code, Code::kTooLarge);
  EXPECT_EQ(parse_json(std::string(100000, '[')).error().code, Code::kTooLarge);
  EXPECT_TRUE(parse_json("[1,2,3]", {.max_values = 4}).ok());
  EXPECT_EQ(parse_json("[1,2,3,4]", {.max_values = 4}).error().code, Code::kTooLarge);
}

TEST(Json, names_the_member_of_a_number_that_no_double_holds) {  // O-24
  const Result<Json> json = parse_json(R"({"messages":[{"a":1}],"temperature":1e309})");
  ASSERT_FALSE(json.ok());
  EXPECT_EQ(json.error().field, "temperature");
  EXPECT_EQ(parse_json(R"({"a":[0,{"b":1e309}]})").error().field, "a[1].b");
}

}  // namespace
}  // namespace refrain::serve
