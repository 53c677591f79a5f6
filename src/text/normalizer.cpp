// Normalizer: see normalizer.h. Any thread.
#include "text/normalizer.h"

#include <array>
#include <cstdint>
#include <iterator>

#include "text/unicode.h"

namespace refrain::text {
namespace {

constexpr std::uint32_t kCodeIndent = 4;  // columns that make a line code
// Searches in one line for closing backticks that are not there; then no more are made.
constexpr std::uint32_t kMaxUnclosed = 8;

bool is_blank(const CodePoint& c) {
  return c.well_formed &&
         (c.value == U' ' || c.value == U'\t' || c.value == 0xA0 || c.value == 0x3000);
}

// ---- width

constexpr char32_t kFirstKatakana = 0xFF61;
constexpr char32_t kVoiced = 0xFF9E, kHalfVoiced = 0xFF9F;  // marks behind the sign they change
// U+FF61 to U+FF9F in their usual width; 0: left as it is.
constexpr auto kKatakana = std::to_array<char16_t>(
    {0x3002, 0,      0,      0x3001, 0x30FB, 0x30F2, 0x30A1, 0x30A3, 0x30A5, 0x30A7, 0x30A9,
     0x30E3, 0x30E5, 0x30E7, 0x30C3, 0x30FC, 0x30A2, 0x30A4, 0x30A6, 0x30A8, 0x30AA, 0x30AB,
     0x30AD, 0x30AF, 0x30B1, 0x30B3, 0x30B5, 0x30B7, 0x30B9, 0x30BB, 0x30BD, 0x30BF, 0x30C1,
     0x30C4, 0x30C6, 0x30C8, 0x30CA, 0x30CB, 0x30CC, 0x30CD, 0x30CE, 0x30CF, 0x30D2, 0x30D5,
     0x30D8, 0x30DB, 0x30DE, 0x30DF, 0x30E0, 0x30E1, 0x30E2, 0x30E4, 0x30E6, 0x30E8, 0x30E9,
     0x30EA, 0x30EB, 0x30EC, 0x30ED, 0x30EF, 0x30F3, 0x309B, 0x309C});

char32_t usual_width(char32_t c) {
  if (c >= kFirstKatakana && c < kFirstKatakana + kKatakana.size()) {
    const char32_t usual = kKatakana[c - kFirstKatakana];
    return usual != 0 ? usual : c;
  }
  // Not those that would begin a quotation, a quoted line or a fence.
  if (c == 0xFF02 || c == 0xFF1E || c == 0xFF40 || c == 0xFF5E) return c;
  return c >= 0xFF01 && c <= 0xFF5E ? c - 0xFF01 + U'!' : c;
}

// The sign of usual width that `base` (half-width) and the mark behind it make; 0 if none.
char32_t voiced(char32_t base, char32_t mark) {
  if (mark != kVoiced && mark != kHalfVoiced) return 0;
  const bool is_h = base >= 0xFF8A && base <= 0xFF8E;
  if (mark == kHalfVoiced) return is_h ? usual_width(base) + 2 : 0;
  if (base == 0xFF73) return 0x30F4;
  return is_h || (base >= 0xFF76 && base <= 0xFF84) ? usual_width(base) + 1 : 0;
}

// ---- quotations inside a line

struct QuotePair {
  std::string_view open, close;
};
constexpr auto kQuotes = std::to_array<QuotePair>({{"\"", "\""},
                                                   {"\u201C", "\u201D"},
                                                   {"\u201E", "\u201C"},
                                                   {"\u00AB", "\u00BB"},
                                                   {"\u300C", "\u300D"},
                                                   {"\u300E", "\u300F"}});

// One line of ordinary text.
class Line {
 public:
  Line(std::string_view text, std::string& out) : text_(text), out_(out) {}

  void write(bool with_indent) {
    std::size_t at = 0;
    for (CodePoint c = code_point_at(text_, at); is_blank(c); c = code_point_at(text_, at)) {
      if (with_indent) out_ += ' ';
      at += c.length;
    }
    bool blank_before = false;
    while (at < text_.size()) {
      const CodePoint c = code_point_at(text_, at);
      if (is_blank(c)) {
        blank_before = true;
        at += c.length;
        continue;
      }
      if (blank_before) out_ += ' ';
      blank_before = false;
      const std::size_t quoted = quotation_at(at);
      at += quoted > 0 ? copy(at, quoted) : write_sign(c, at);
    }
  }

 private:
  std::size_t copy(std::size_t at, std::size_t length) {
    out_ += text_.substr(at, length);
    return length;
  }
  std::size_t write_sign(const CodePoint& c, std::size_t at) {
    if (!c.well_formed) return copy(at, c.length);
    const CodePoint next = code_point_at(text_, at + c.length);
    const char32_t both = next.well_formed ? voiced(c.value, next.value) : 0;
    append_utf8(both != 0 ? both : usual_width(c.value), out_);
    return c.length + (both != 0 ? next.length : 0);
  }
  // Bytes of the quotation that begins at `at`, marks included; 0 if none does. A kind of quotation
  // that is not closed once is not looked for again in this line.
  std::size_t quotation_at(std::size_t at) {
    if (text_[at] == '`') return backticks_at(at);
    for (std::size_t kind = 0; kind < kQuotes.size(); ++kind) {
      const QuotePair& quote = kQuotes[kind];
      if (unclosed_[kind] || !text_.substr(at).starts_with(quote.open)) continue;
      const std::size_t close = text_.find(quote.close, at + quote.open.size());
      if (close != std::string_view::npos) return close + quote.close.size() - at;
      unclosed_[kind] = true;
    }
    return 0;
  }
  // A run of backticks, or code up to the next run of the same length.
  std::size_t backticks_at(std::size_t at) {
    const std::size_t length = run_of_backticks(at);
    std::size_t close =
        unclosed_ticks_ < kMaxUnclosed ? text_.find('`', at + length) : std::string_view::npos;
    while (close != std::string_view::npos) {
      const std::size_t closing = run_of_backticks(close);
      if (closing == length) return close + closing - at;
      close = text_.find('`', close + closing);
    }
    ++unclosed_ticks_;
    return length;
  }
  std::size_t run_of_backticks(std::size_t at) const {
    const std::size_t end = text_.find_first_not_of('`', at);
    return (end == std::string_view::npos ? text_.size() : end) - at;
  }

  const std::string_view text_;
  std::string& out_;
  std::array<bool, kQuotes.size()> unclosed_{};
  std::uint32_t unclosed_ticks_ = 0;
};

// ---- lines

enum class LineKind { kEmpty, kText, kQuoted, kIndented, kFence };

LineKind kind_of(std::string_view line) {
  std::size_t at = 0;
  std::uint32_t columns = 0;
  for (CodePoint c = code_point_at(line, at); is_blank(c); c = code_point_at(line, at)) {
    columns += c.value == U'\t' ? kCodeIndent : 1;
    at += c.length;
  }
  const std::string_view rest = line.substr(at);
  if (rest.empty()) return LineKind::kEmpty;
  if (columns >= kCodeIndent) return LineKind::kIndented;
  if (rest.starts_with("```") || rest.starts_with("~~~")) return LineKind::kFence;
  return rest.starts_with('>') ? LineKind::kQuoted : LineKind::kText;
}

struct Fence {
  char mark = 0;  // 0: none is open
  std::size_t length = 0;
};

// The marks that a line of kind kFence begins with, and whether only blanks follow.
Fence fence_of(std::string_view line, bool* is_bare) {
  const std::size_t begin = line.find_first_of("`~");
  const std::size_t end = std::min(line.find_first_not_of(line[begin], begin), line.size());
  *is_bare = kind_of(line.substr(end)) == LineKind::kEmpty;
  return Fence{line[begin], end - begin};
}

class Normalizer {
 public:
  explicit Normalizer(std::string_view text) : text_(text) { out_.reserve(text.size()); }

  std::string run() {
    while (!text_.empty()) {
      const std::size_t end = std::min(text_.find_first_of("\r\n"), text_.size());
      const std::size_t ending = text_.substr(end).starts_with("\r\n") ? 2 : 1;
      const std::size_t whole = std::min(end + ending, text_.size());
      take(text_.substr(0, end), text_.substr(end, whole - end));
      text_.remove_prefix(whole);
    }
    // The last line break goes, unless it belongs to code.
    if (fence_.mark == 0 && last_kind_ != LineKind::kIndented)
      out_.resize(out_.size() - last_ending_);
    return std::move(out_);
  }

 private:
  void take(std::string_view line, std::string_view ending) {
    LineKind kind = kind_of(line);
    if (fence_.mark != 0) {
      take_fenced(line, kind);
      copy(line, ending);
      last_kind_ = LineKind::kFence;
      return;
    }
    if (kind == LineKind::kEmpty) {
      empty_lines_ += line;
      empty_lines_ += ending;
      return;
    }
    write_empty_lines(kind);
    if (kind == LineKind::kFence) {
      bool is_bare = false;
      fence_ = fence_of(line, &is_bare);
    }
    if (kind == LineKind::kText) {
      Line(line, out_).write(/*with_indent=*/last_kind_ != LineKind::kEmpty);
      if (!ending.empty()) out_ += '\n';
      last_ending_ = ending.empty() ? 0 : 1;
    } else {
      copy(line, ending);
    }
    last_kind_ = kind;
  }

  void take_fenced(std::string_view line, LineKind kind) {
    if (kind != LineKind::kFence) return;
    bool is_bare = false;
    const Fence closing = fence_of(line, &is_bare);
    if (is_bare && closing.mark == fence_.mark && closing.length >= fence_.length) fence_ = {};
  }

  // Those inside indented code belong to it.
  void write_empty_lines(LineKind next) {
    if (last_kind_ == LineKind::kIndented && next == LineKind::kIndented) {
      out_ += empty_lines_;
    } else if (last_kind_ != LineKind::kEmpty && !empty_lines_.empty()) {
      out_ += '\n';
    }
    empty_lines_.clear();
  }

  void copy(std::string_view line, std::string_view ending) {
    out_ += line;
    out_ += ending;
    last_ending_ = ending.size();
  }

  std::string_view text_;  // what is left
  std::string out_;
  std::string empty_lines_;                // not written yet
  LineKind last_kind_ = LineKind::kEmpty;  // of the last line written; kEmpty: none
  std::size_t last_ending_ = 0;            // bytes of its line break
  Fence fence_;                            // that is open
};

}  // namespace

std::string normalize(std::string_view text) {
  return Normalizer(text).run();
}

bool normalize_user_messages(std::vector<ChatMessage>& messages) {
  bool changed = false;
  for (ChatMessage& message : messages) {
    if (message.role != "user") continue;
    std::string canonical = normalize(message.content);
    if (canonical == message.content) continue;
    message.content = std::move(canonical);
    changed = true;
  }
  return changed;
}

}  // namespace refrain::text
