// Tool calls in streamed text, however the text is cut into pieces.
#include "serve/tool_calls.h"

#include <gtest/gtest.h>

#include <string>

namespace refrain::serve {
namespace {

using Kind = AnswerPiece::Kind;

// "content|[0 name]arguments|..." of a text that arrives in pieces of `size` bytes.
std::string parse(const std::string& text, std::size_t size, bool calls_only = false) {
  ToolCallParser parser(calls_only);
  std::string content, calls;
  const auto add = [&](const std::vector<AnswerPiece>& pieces) {
    for (const AnswerPiece& piece : pieces) {
      if (piece.kind == Kind::kContent) content += piece.text;
      if (piece.kind == Kind::kCallBegin) calls += "[" + piece.text + "]";
      if (piece.kind == Kind::kCallArguments) calls += piece.text;
    }
  };
  for (std::size_t at = 0; at < text.size(); at += size) add(parser.push(text.substr(at, size)));
  add(parser.finish());
  return content + "|" + calls;
}

void expect(const std::string& text, const std::string& wanted) {
  for (const std::size_t size : {1, 2, 3, 7, 1000}) EXPECT_EQ(parse(text, size), wanted) << size;
}

TEST(ToolCallParser, passes_plain_text_through_unchanged) {
  expect("Hello <b>there</b> \n", "Hello <b>there</b> \n|");
  expect("ends with a beginning <tool_", "ends with a beginning <tool_|");
  expect("", "|");
}

TEST(ToolCallParser, splits_text_calls_and_arguments) {  // O-22
  expect("Let me see.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
         "Let me see.|[f]{\"a\": 1}");
  expect(
      "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
      "<tool_call>{\"name\":\"g\",\"arguments\":{\"x\":\"</tool_call>\"}}</tool_call>\n",
      "|[f]{}[g]{\"x\":\"</tool_call>\"}");
}

TEST(ToolCallParser, reads_the_members_of_a_call_in_any_order) {
  expect("<tool_call>{\"arguments\":{\"a\":[{}]},\"id\":7,\"name\":\"f\\u0041\"}</tool_call>",
         "|[fA]{\"a\":[{}]}");
  expect("<tool_call>{\"name\":\"f\",\"parameters\":{\"a\":\"\\\"}\"}}</tool_call>",
         "|[f]{\"a\":\"\\\"}\"}");
  expect("<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>",
         "|[f]{\"a\":1}");
  expect("<tool_call>{\"name\":\"f\"}</tool_call>", "|[f]{}");
}

TEST(ToolCallParser, gives_text_that_is_no_call_out_as_content) {
  expect("x <tool_call>nothing</tool_call>", "x <tool_call>nothing</tool_call>|");
  expect("x <tool_call>{\"a\":1}</tool_call> y", "x <tool_call>{\"a\":1}</tool_call> y|");
  expect("x <tool_call>{\"na", "x <tool_call>{\"na|");
}

TEST(ToolCallParser, keeps_what_was_written_of_a_call_that_is_cut_short) {
  expect("<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":", "|[f]{\"a\":");
  expect("<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_c", "|[f]{}");
  expect("<tool_call>{\"name\":\"f\",\"arguments\":{}}}\n</tool_call>", "|[f]{}");
}

// A forced call may be cut by max_tokens at any byte: no piece of it becomes content.
TEST(ToolCallParser, gives_no_content_where_only_calls_may_come) {  // O-22
  const std::string text =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";
  for (std::size_t length = 0; length <= text.size(); ++length)
    for (const std::size_t size : {1, 3, 1000}) {
      const std::string got = parse(text.substr(0, length), size, true);
      EXPECT_TRUE(got.starts_with("|")) << length << " of " << size << ": " << got;
    }
  EXPECT_EQ(parse(text, 7, true), "|[f]{\"a\": 1}[g]{}");
}

}  // namespace
}  // namespace refrain::serve
