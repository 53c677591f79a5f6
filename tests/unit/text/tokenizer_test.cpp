// Tokenizer on small vocabularies: merges, control tokens, BOS, places of messages, decoding
// (O-03 control tokens and BOS; O-30; O-29 small stack).
#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/small_vocabularies.h"

namespace refrain::text {
namespace {

using test_support::small_byte_pair_vocabulary;
using test_support::small_sentence_piece_vocabulary;

std::unique_ptr<Tokenizer> make(Vocabulary vocabulary) {
  auto made = Tokenizer::create(std::move(vocabulary));
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return std::move(made).value();
}

// Written forms, which show more than ids.
std::vector<std::string> written(const Tokenizer& tokenizer, const TokenList& tokens) {
  std::vector<std::string> forms;
  for (const TokenId id : tokens)
    forms.push_back(tokenizer.vocabulary().tokens[static_cast<std::size_t>(to_int(id))]);
  return forms;
}

using Forms = std::vector<std::string>;

TEST(BytePair, merges_by_rank_and_of_equal_ranks_the_leftmost) {
  const auto t = make(small_byte_pair_vocabulary());
  EXPECT_EQ(written(*t, t->encode("hello hello", {})), (Forms{"hello", "Ġhello"}));
  EXPECT_EQ(written(*t, t->encode("aaaaa", {})), (Forms{"aaaa", "a"}));
  EXPECT_EQ(written(*t, t->encode("hel", {})), (Forms{"he", "l"}));  // "e l" ranks later
}

TEST(BytePair, llama3_takes_whole_words_without_merging) {
  Vocabulary v = small_byte_pair_vocabulary("llama-bpe");
  test_support::add_token(v, "xyz", TokenType::kNormal);  // no merge makes it
  EXPECT_EQ(written(*make(v), make(v)->encode("xyz", {})), (Forms{"xyz"}));
  v.pre_tokenizer = "qwen2";
  EXPECT_EQ(written(*make(v), make(v)->encode("xyz", {})), (Forms{"x", "y", "z"}));
}

TEST(BytePair, user_defined_tokens_match_in_any_text_longest_first) {
  Vocabulary v = small_byte_pair_vocabulary();
  test_support::add_token(v, "[tag]!", TokenType::kUserDefined);
  const auto t = make(std::move(v));
  EXPECT_EQ(written(*t, t->encode("a[tag]!b[tag]", {})), (Forms{"a", "[tag]!", "b", "[tag]"}));
}

TEST(BytePair, a_byte_without_a_token_is_left_out) {
  Vocabulary v = small_byte_pair_vocabulary();
  for (std::string& token : v.tokens)
    if (token == "z") token = "(gone)";
  const auto t = make(std::move(v));
  EXPECT_EQ(t->decode(t->encode("hezllo", {})), "hello");
  EXPECT_EQ(written(*t, t->encode("hezllo", {})), (Forms{"hello"}));  // neighbours may merge
}

TEST(BytePair, a_merge_never_makes_typed_text_a_control_token) {
  Vocabulary v = small_byte_pair_vocabulary();
  v.tokens[1] = "xq";
  v.merges.emplace_back("x q");
  const auto t = make(std::move(v));
  EXPECT_EQ(t->encode("xq", {}).size(), 2U);
}

TEST(SentencePiece, the_highest_score_merges_first) {
  const auto t = make(small_sentence_piece_vocabulary());
  EXPECT_EQ(written(*t, t->encode("hello world", {})), (Forms{"hello", "▁world"}));
  EXPECT_EQ(written(*t, t->encode("aaaaa", {})), (Forms{"aa", "aaa"}));
}

TEST(SentencePiece, tabs_and_blanks_are_user_defined_tokens_longest_first) {
  const auto t = make(small_sentence_piece_vocabulary());
  EXPECT_EQ(written(*t, t->encode("\t\t\thello", {})), (Forms{"\t\t", "\t", "hello"}));
  EXPECT_EQ(written(*t, t->encode("     hello", {})), (Forms{"    ", "▁hello"}));
  EXPECT_EQ(written(*t, t->encode("   hello", {})), (Forms{"   ", "hello"}));
  EXPECT_EQ(written(*t, t->encode("<h1>h", {})), (Forms{"<h1>", "h"}));
}

TEST(SentencePiece, characters_without_token_become_bytes_and_come_back) {
  const auto t = make(small_sentence_piece_vocabulary());
  EXPECT_EQ(written(*t, t->encode("é\xFF", {})), (Forms{"<0xC3>", "<0xA9>", "<0xFF>"}));
  for (const std::string& text : {std::string("é\xFF\x80 h\0e", 8),
                                  std::string("\xF0\x9F\xA6\x99漢字"), std::string("<bos> <0x41>")})
    EXPECT_EQ(t->decode(t->encode(text, {})), text);
}

TEST(SentencePiece, without_byte_tokens_a_run_of_unknown_characters_is_one_unknown_token) {
  const auto t = make(small_sentence_piece_vocabulary(false));
  EXPECT_EQ(written(*t, t->encode("hzzzhz", {})), (Forms{"h", "<unk>", "h", "<unk>"}));
}

TEST(SentencePiece, a_blank_is_put_in_front_once_and_taken_away_again) {
  Vocabulary v = small_sentence_piece_vocabulary();
  v.add_space_prefix = true;
  v.add_bos = true;
  const auto t = make(std::move(v));
  EXPECT_EQ(written(*t, t->encode("hello", {})), (Forms{"▁hello"}));
  EXPECT_EQ(t->decode(t->encode("hello", {.add_bos = true})), "hello");
  EXPECT_EQ(written(*t, t->encode("<bos>hello<end_of_turn>hello", {.parse_special = true})),
            (Forms{"<bos>", "▁hello", "<end_of_turn>", "hello"}));
  EXPECT_TRUE(t->encode("", {}).empty());
  EXPECT_EQ(written(*t, t->encode(" hello", {})), (Forms{"  ", "hello"}));
  EXPECT_EQ(t->decode(t->encode(" hello", {})), " hello");
}

TEST(SentencePiece, unused_tokens_are_cut_into_their_halves_again) {
  Vocabulary v = small_sentence_piece_vocabulary();
  for (std::size_t i = 0; i < v.tokens.size(); ++i)
    if (v.tokens[i] == "hell") v.types[i] = TokenType::kUnused;
  const auto t = make(std::move(v));
  EXPECT_EQ(written(*t, t->encode("hell", {})), (Forms{"he", "ll"}));
  EXPECT_EQ(written(*t, t->encode("hello", {})), (Forms{"hello"}));  // still a step on the way
}

TEST(ControlTokens, typed_markers_stay_text_and_template_markers_count) {  // O-03
  const auto t = make(small_byte_pair_vocabulary());
  const TokenId marker = *t->find("<|im_end|>");
  for (const TokenId id : t->encode("a<|im_end|>b", {})) EXPECT_FALSE(t->is_control(id));
  const TokenList special = t->encode("a<|im_end|>b", {.parse_special = true});
  ASSERT_EQ(special.size(), 3U);
  EXPECT_EQ(special[1], marker);
  EXPECT_EQ(written(*t, t->encode("<|im_start|>x", {.parse_special = true})),
            (Forms{"<|im_start|>x"}));  // longest
}

TEST(ControlTokens, a_marker_put_together_from_template_and_user_text_stays_text) {  // O-03
  const auto t = make(small_byte_pair_vocabulary());
  const auto prompt = t->encode_prompt({{{"<|im_", PromptPart::kTemplate}, {"end|>", 0}}});
  for (const TokenId id : prompt.tokens) EXPECT_FALSE(t->is_control(id));
  const auto joined =
      t->encode_prompt({{{"<|im_", PromptPart::kTemplate}, {"end|>", PromptPart::kTemplate}}});
  EXPECT_EQ(written(*t, joined.tokens), (Forms{"<|im_end|>"}));
}

TEST(ControlTokens, rendered_only_when_asked_for) {
  const auto t = make(small_byte_pair_vocabulary());
  const TokenList tokens = t->encode("a<|im_end|>[tag]", {.parse_special = true});
  EXPECT_EQ(t->decode(tokens), "a[tag]");
  EXPECT_EQ(t->decode(tokens, true), "a<|im_end|>[tag]");
}

TEST(EncodePrompt, joins_text_over_part_borders_and_says_where_messages_begin) {
  const auto t = make(small_byte_pair_vocabulary());
  const auto prompt = t->encode_prompt({{{"<|im_start|>he", PromptPart::kTemplate},
                                         {"llo world", 0},
                                         {"<|im_end|>", PromptPart::kTemplate},
                                         {"", 1},
                                         {"123", 2}}});
  EXPECT_EQ(written(*t, prompt.tokens),
            (Forms{"<|im_start|>", "hello", "Ġworld", "<|im_end|>", "123"}));
  EXPECT_EQ(prompt.message_begin, (std::vector<std::size_t>{1, 5, 4}));
}

TEST(EncodePrompt, says_where_the_header_of_each_message_begins) {  // O-37
  const auto t = make(small_byte_pair_vocabulary());
  ASSERT_TRUE(t->is_end_of_generation(*t->find("<|im_end|>")));
  const auto prompt = t->encode_prompt({{{"<|im_start|>he", PromptPart::kTemplate},
                                         {"llo", 0},
                                         {"<|im_end|>12<|im_start|>he", PromptPart::kTemplate},
                                         {"llo", 1},
                                         {"<|im_end|>", PromptPart::kTemplate},
                                         {"123", 2},
                                         {"", 3}}});
  EXPECT_EQ(written(*t, prompt.tokens).size(), prompt.tokens.size());
  const auto opening =
      std::find(prompt.tokens.begin() + 1, prompt.tokens.end(), *t->find("<|im_start|>")) -
      prompt.tokens.begin();
  // What ends a turn opens none; where nothing opens one, it begins with its text.
  EXPECT_EQ(prompt.header_begin,
            (std::vector<std::size_t>{0, static_cast<std::size_t>(opening), prompt.message_begin[2],
                                      prompt.tokens.size()}));
  EXPECT_LT(static_cast<std::size_t>(opening), prompt.message_begin[1]);
  // A turn that the template wrote of its own accord is not the first message's.
  const auto own = t->encode_prompt(
      {{{"<|im_start|>he<|im_end|><|im_start|>he", PromptPart::kTemplate}, {"llo", 0}}});
  EXPECT_EQ(own.tokens[own.header_begin[0]], *t->find("<|im_start|>"));
  EXPECT_GT(own.header_begin[0], 0U);
}

TEST(EncodePrompt, places_of_messages_count_the_added_bos_and_blanks_as_in_the_text) {
  Vocabulary v = small_sentence_piece_vocabulary();
  v.add_bos = true;
  v.add_space_prefix = true;
  const auto t = make(std::move(v));
  const auto prompt =
      t->encode_prompt({{{"hello world", PromptPart::kTemplate}, {" world", 0}, {"\t\xFF", 1}}});
  EXPECT_EQ(written(*t, prompt.tokens),
            (Forms{"<bos>", "▁hello", "▁world", "▁world", "\t", "<0xFF>"}));
  EXPECT_EQ(prompt.message_begin, (std::vector<std::size_t>{3, 4}));
  EXPECT_EQ(prompt.header_begin, prompt.message_begin);
}

TEST(Bos, is_there_exactly_once) {  // O-03 (b)
  Vocabulary v = small_byte_pair_vocabulary();
  v.add_bos = true;
  const auto t = make(std::move(v));
  const EncodeOptions options{.add_bos = true, .parse_special = true};
  const Forms once = {"<|begin|>", "he"};
  EXPECT_EQ(written(*t, t->encode("he", options)), once);
  EXPECT_EQ(written(*t, t->encode("<|begin|>he", options)), once);
  EXPECT_EQ(written(*t, t->encode("", options)), (Forms{"<|begin|>"}));
  EXPECT_EQ(written(*t, t->encode_prompt({{{"<|begin|>he", PromptPart::kTemplate}}}).tokens), once);
  EXPECT_EQ(written(*t, t->encode_prompt({{{"he", 0}}}).tokens), once);
  EXPECT_EQ(written(*t, t->encode("he", {})), (Forms{"he"}));
}

TEST(Bos, is_not_added_where_the_vocabulary_does_not_ask_for_it) {
  const auto t = make(small_byte_pair_vocabulary());
  EXPECT_EQ(written(*t, t->encode("he", {.add_bos = true})), (Forms{"he"}));
}

TEST(EndOfGeneration, is_eos_and_the_known_markers_if_they_are_control_tokens) {
  Vocabulary v = small_sentence_piece_vocabulary();
  test_support::add_token(v, "<|im_end|>", TokenType::kNormal);
  const auto t = make(std::move(v));
  EXPECT_TRUE(t->is_end_of_generation(*t->find("<eos>")));
  EXPECT_TRUE(t->is_end_of_generation(*t->find("<end_of_turn>")));
  EXPECT_FALSE(t->is_end_of_generation(*t->find("<bos>")));
  EXPECT_FALSE(t->is_end_of_generation(*t->find("<|im_end|>")));  // here typed text could make it
}

TEST(Create, refuses_inconsistent_vocabularies_with_the_key_at_fault) {
  const auto fault = [](Vocabulary v) {
    auto made = Tokenizer::create(std::move(v));
    return made.ok() ? std::string("accepted") : made.error().field;
  };
  Vocabulary v = small_byte_pair_vocabulary();
  v.pre_tokenizer = "nonsense\xFF";
  EXPECT_EQ(fault(v), "tokenizer.ggml.pre");
  v = small_byte_pair_vocabulary();
  v.merges.emplace_back("q qq");
  EXPECT_EQ(fault(v), "tokenizer.ggml.merges");
  v = small_byte_pair_vocabulary();
  v.merges.emplace_back("");
  EXPECT_EQ(fault(v), "tokenizer.ggml.merges");
  v = small_byte_pair_vocabulary();
  v.types.pop_back();
  EXPECT_EQ(fault(v), "tokenizer.ggml.token_type");
  v = small_byte_pair_vocabulary();
  v.types[3] = static_cast<TokenType>(7);
  EXPECT_EQ(fault(v), "tokenizer.ggml.token_type");
  v = small_byte_pair_vocabulary();
  v.bos = TokenId{1000000};
  EXPECT_EQ(fault(v), "tokenizer.ggml.bos_token_id");
  v = small_byte_pair_vocabulary();
  v.tokens[7] = std::string(5000, 'x');
  EXPECT_EQ(fault(v), "tokenizer.ggml.tokens");
  v = small_sentence_piece_vocabulary();
  v.scores.pop_back();
  EXPECT_EQ(fault(v), "tokenizer.ggml.scores");
  v = small_sentence_piece_vocabulary();
  v.scores[30] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(fault(v), "tokenizer.ggml.scores");
  EXPECT_EQ(fault(Vocabulary{}), "tokenizer.ggml.tokens");
}

TEST(LongText, needs_no_more_stack_than_a_small_thread_has) {  // O-29
  struct Job {
    std::unique_ptr<Tokenizer> tokenizer;
    bool same = false;
  };
  for (const bool byte_pair : {true, false}) {
    Job job{make(byte_pair ? small_byte_pair_vocabulary("llama-bpe")
                           : small_sentence_piece_vocabulary())};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, 128 * 1024), 0);
    pthread_t thread{};
    const auto body = [](void* argument) -> void* {
      auto& j = *static_cast<Job*>(argument);
      j.same = true;
      for (const char* unit : {"a", " ", "\n", "漢", "1", "e\u0301", "\xFF"}) {
        std::string text;
        while (text.size() < 100000) text += unit;
        j.same = j.same && j.tokenizer->decode(j.tokenizer->encode(text, {})) == text;
      }
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, body, &job), 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    EXPECT_TRUE(job.same);
  }
}

}  // namespace
}  // namespace refrain::text
