// ToolCallParser: finds <tool_call>{"name": ..., "arguments": {...}}</tool_call> in the streamed
// text of one choice and turns it into the pieces of an OpenAI answer: plain content, the beginning
// of a call, and pieces of its arguments exactly as the model wrote them. Text that may still
// become a marker is held back; what turns out to be no call is given out as content, never lost.
// Where a grammar forces calls there is no content: what is no call then is a call cut short.
// One per choice, on the connection's strand.
//
//   push("Wait.\n<tool_call>\n{\"name\": \"f\", \"argu") -> content "Wait."
//   push("ments\": {\"a\"")                              -> begin(0, "f"), arguments "{\"a\""
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace refrain::serve {

// One step of a choice's answer.
struct AnswerPiece {
  enum class Kind { kContent, kCallBegin, kCallArguments };
  Kind kind = Kind::kContent;
  std::string text;        // content, the function's name, or a piece of arguments
  std::uint32_t call = 0;  // index of the call, from 0; not for content
  bool operator==(const AnswerPiece&) const = default;
};

// Reads one call's JSON object byte by byte.
class ToolCallScanner {
 public:
  enum class State { kReading, kComplete, kMalformed };

  // Takes one byte; kMalformed means that this byte does not belong to the call.
  State push(char c);

  bool has_name() const { return !name_.empty(); }
  const std::string& name() const { return name_; }
  // Arguments read since the last call of this.
  std::string take_arguments();
  const std::string& raw() const { return raw_; }  // everything taken, for giving it back as text

 private:
  enum class Where {
    kStart,
    kBeforeKey,
    kKey,
    kBeforeColon,
    kBeforeValue,
    kValue,
    kAfterValue,
    kEnd
  };

  State key_byte(char c);
  State value_byte(char c);
  void end_value();
  bool is_arguments() const { return key_ == "arguments" || key_ == "parameters"; }

  Where where_ = Where::kStart;
  std::string raw_;
  std::string key_;
  std::string value_;  // of a member that is not an arguments object
  std::string name_;
  std::string arguments_;
  bool streams_value_ = false;  // the value is an arguments object and goes out as it comes
  bool in_text_ = false;
  bool escaped_ = false;
  std::uint32_t depth_ = 0;  // open brackets inside the value
};

class ToolCallParser {
 public:
  explicit ToolCallParser(bool calls_only = false) : calls_only_(calls_only) {}
  std::vector<AnswerPiece> push(std::string_view text);
  std::vector<AnswerPiece> finish();
  std::uint32_t call_count() const { return call_count_; }

 private:
  enum class Mode { kText, kCall, kAfterCall };

  void read_text(std::vector<AnswerPiece>& pieces);
  void read_call(std::vector<AnswerPiece>& pieces);
  void read_after_call(std::vector<AnswerPiece>& pieces);
  void give_arguments(std::vector<AnswerPiece>& pieces);
  void begin_call(std::vector<AnswerPiece>& pieces);
  void end_call(std::vector<AnswerPiece>& pieces);

  void give_back(std::vector<AnswerPiece>& pieces);
  void give_content(std::vector<AnswerPiece>& pieces, std::string text) const;

  bool calls_only_;
  Mode mode_ = Mode::kText;
  std::string held_;    // not yet decided
  std::string blanks_;  // in front of the current call; dropped unless it is no call after all
  ToolCallScanner scanner_;
  bool begun_ = false;          // the current call was announced
  bool has_arguments_ = false;  // and at least a piece of its arguments
  std::uint32_t call_count_ = 0;
};

}  // namespace refrain::serve
