// See tool_calls.h.
#include "serve/tool_calls.h"

#include <algorithm>
#include <utility>

#include "serve/json.h"

namespace refrain::serve {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";
constexpr std::size_t kMaxAfterCallBytes = 256;  // stray text before the end marker

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// Length of the longest end of `text` that is a beginning of `marker`.
std::size_t partial_marker(std::string_view text, std::string_view marker) {
  for (std::size_t length = std::min(text.size(), marker.size() - 1); length > 0; --length)
    if (text.ends_with(marker.substr(0, length))) return length;
  return 0;
}

std::size_t without_trailing_blanks(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0 && is_blank(text[end - 1])) --end;
  return end;
}

// A JSON string with its quotes -> its text, "" if it is none.
std::string unquote(const std::string& json) {
  const Result<Json> parsed = parse_json(json);
  if (!parsed.ok() || parsed->text() == nullptr) return {};
  return *parsed->text();
}

}  // namespace

ToolCallScanner::State ToolCallScanner::push(char c) {
  State state = State::kReading;
  switch (where_) {
    case Where::kStart:
      if (c == '{')
        where_ = Where::kBeforeKey;
      else if (!is_blank(c))
        return State::kMalformed;
      break;
    case Where::kBeforeKey:
    case Where::kKey:
      state = key_byte(c);
      break;
    case Where::kBeforeColon:
      if (c == ':')
        where_ = Where::kBeforeValue;
      else if (!is_blank(c))
        return State::kMalformed;
      break;
    case Where::kBeforeValue:
      if (is_blank(c)) break;
      if (c == ',' || c == '}' || c == '<') return State::kMalformed;
      where_ = Where::kValue;
      streams_value_ = is_arguments() && (c == '{' || c == '[');
      state = value_byte(c);
      break;
    case Where::kValue:
      state = value_byte(c);
      break;
    case Where::kAfterValue:
      if (c == ',')
        where_ = Where::kBeforeKey;
      else if (c == '}')
        where_ = Where::kEnd;
      else if (!is_blank(c))
        return State::kMalformed;
      break;
    case Where::kEnd:
      return State::kMalformed;
  }
  if (state == State::kMalformed) return state;
  raw_ += c;
  return where_ == Where::kEnd ? State::kComplete : State::kReading;
}

ToolCallScanner::State ToolCallScanner::key_byte(char c) {
  if (where_ == Where::kBeforeKey) {
    if (c == '"') {
      where_ = Where::kKey;
      key_.clear();
    } else if (c == '}') {
      where_ = Where::kEnd;
    } else if (!is_blank(c)) {
      return State::kMalformed;
    }
  } else if (c == '"') {
    where_ = Where::kBeforeColon;
  } else {
    key_ += c;
  }
  return State::kReading;
}

ToolCallScanner::State ToolCallScanner::value_byte(char c) {
  std::string& target = streams_value_ ? arguments_ : value_;
  if (in_text_) {
    target += c;
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_text_ = false;
      if (depth_ == 0) end_value();
    }
    return State::kReading;
  }
  if (c == '"') {
    in_text_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '<') {
    return State::kMalformed;                          // a marker inside an unfinished value
  } else if (depth_ == 0 && (c == ',' || c == '}')) {  // ends a number or a word
    end_value();
    where_ = c == ',' ? Where::kBeforeKey : Where::kEnd;
    return State::kReading;
  } else if (c == '}' || c == ']') {
    target += c;
    if (depth_ > 0 && --depth_ == 0) end_value();
    return State::kReading;
  }
  target += c;
  return State::kReading;
}

void ToolCallScanner::end_value() {
  if (!streams_value_) {
    if (key_ == "name") {
      name_ = unquote(value_);
    } else if (is_arguments() && value_.starts_with('"')) {
      arguments_ += unquote(value_);  // arguments given as a string that holds JSON
    }
  }
  value_.clear();
  streams_value_ = false;
  where_ = Where::kAfterValue;
}

std::string ToolCallScanner::take_arguments() {
  return std::exchange(arguments_, {});
}

std::vector<AnswerPiece> ToolCallParser::push(std::string_view text) {
  held_ += text;
  std::vector<AnswerPiece> pieces;
  for (;;) {
    const Mode before = mode_;
    const std::size_t size_before = held_.size();
    switch (mode_) {
      case Mode::kText:
        read_text(pieces);
        break;
      case Mode::kCall:
        read_call(pieces);
        break;
      case Mode::kAfterCall:
        read_after_call(pieces);
        break;
    }
    if (mode_ == before && held_.size() == size_before) return pieces;
  }
}

void ToolCallParser::read_text(std::vector<AnswerPiece>& pieces) {
  const std::size_t marker = held_.find(kOpen);
  const bool found = marker != std::string::npos;
  // Blanks in front of a call are not content; so blanks wait until it is clear what follows.
  const std::size_t undecided = found ? marker : held_.size() - partial_marker(held_, kOpen);
  std::size_t end = without_trailing_blanks(std::string_view(held_).substr(0, undecided));
  give_content(pieces, held_.substr(0, end));
  if (found) {
    blanks_ = held_.substr(end, marker - end);
    end = marker + kOpen.size();
    mode_ = Mode::kCall;
    scanner_ = ToolCallScanner();
    begun_ = has_arguments_ = false;
  }
  held_.erase(0, end);
}

void ToolCallParser::begin_call(std::vector<AnswerPiece>& pieces) {
  if (begun_ || !scanner_.has_name()) return;
  begun_ = true;
  pieces.push_back({AnswerPiece::Kind::kCallBegin, scanner_.name(), call_count_++});
}

void ToolCallParser::give_arguments(std::vector<AnswerPiece>& pieces) {
  begin_call(pieces);
  if (!begun_) return;  // the name comes later; the scanner keeps the arguments until then
  std::string arguments = scanner_.take_arguments();
  if (arguments.empty()) return;
  has_arguments_ = true;
  pieces.push_back({AnswerPiece::Kind::kCallArguments, std::move(arguments), call_count_ - 1});
}

void ToolCallParser::end_call(std::vector<AnswerPiece>& pieces) {
  give_arguments(pieces);
  if (begun_ && !has_arguments_)
    pieces.push_back({AnswerPiece::Kind::kCallArguments, "{}", call_count_ - 1});
}

void ToolCallParser::read_call(std::vector<AnswerPiece>& pieces) {
  std::size_t taken = 0;
  ToolCallScanner::State state = ToolCallScanner::State::kReading;
  while (taken < held_.size() && state == ToolCallScanner::State::kReading) {
    state = scanner_.push(held_[taken]);
    if (state != ToolCallScanner::State::kMalformed) ++taken;
  }
  held_.erase(0, taken);
  if (state == ToolCallScanner::State::kReading) {
    give_arguments(pieces);
    return;
  }
  if (scanner_.has_name()) {
    end_call(pieces);
    mode_ = Mode::kAfterCall;
    return;
  }
  give_back(pieces);
  mode_ = Mode::kText;
}

// No call after all: what was taken is text.
void ToolCallParser::give_back(std::vector<AnswerPiece>& pieces) {
  give_content(pieces, blanks_ + std::string(kOpen) + scanner_.raw());
}

void ToolCallParser::give_content(std::vector<AnswerPiece>& pieces, std::string text) const {
  if (text.empty() || calls_only_) return;
  pieces.push_back({AnswerPiece::Kind::kContent, std::move(text), 0});
}

void ToolCallParser::read_after_call(std::vector<AnswerPiece>& pieces) {
  const std::size_t marker = held_.find(kClose);
  if (marker != std::string::npos) {
    held_.erase(0, marker + kClose.size());
    mode_ = Mode::kText;
  } else if (held_.find(kOpen) != std::string::npos) {
    mode_ = Mode::kText;  // the next call begins although this one was never closed
    held_.erase(0, held_.find(kOpen));
  } else if (held_.size() > kMaxAfterCallBytes) {
    give_content(pieces, std::exchange(held_, {}));
    mode_ = Mode::kText;
  }
}

std::vector<AnswerPiece> ToolCallParser::finish() {
  std::vector<AnswerPiece> pieces;
  if (mode_ == Mode::kCall) {
    give_arguments(pieces);
    if (!begun_) give_back(pieces);
  } else if (mode_ == Mode::kAfterCall) {
    // A marker cut short by the end is no text; anything else is.
    held_.erase(held_.size() - partial_marker(held_, kClose));
  }
  // Blanks that no call followed belong to the text; after a call they are the template's.
  const bool only_blanks = without_trailing_blanks(held_) == 0;
  if (!(only_blanks && call_count_ > 0)) give_content(pieces, std::move(held_));
  held_.clear();
  return pieces;
}

}  // namespace refrain::serve
