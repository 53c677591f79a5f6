// The header check and the file on top of it: what is accepted, and every refusal of O-32 and its
// like. The malformed files come from tools/make_bad_gguf.py with the message each must give.
#include "model/gguf_check.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/str.h"
#include "model/gguf_file.h"
#include "model/tensor_types.h"
#include "unit/model/gguf_builder.h"

namespace refrain::model {
namespace {

const std::string kGenerated = REFRAIN_TEST_GENERATED;

// A sound file of one F32 tensor [32] and the keys that `add` writes.
template <typename Add>
std::vector<std::byte> one_tensor_file(std::uint64_t key_count, Add add) {
  ByteWriter out;
  out.raw("GGUF", 4).u32(3).u64(1).u64(key_count);
  add(out);
  out.text("weight").u32(1).u64(32).u32(0).u64(0).pad(32);
  const std::vector<float> data(32, 1.0F);
  out.raw(data.data(), data.size() * sizeof(float));
  return out.take();
}

TEST(GgufCheck, AcceptsASoundFileAndFindsItsParts) {
  const auto file = one_tensor_file(1, [](ByteWriter& out) { out.text("a.key").u32(4).u32(7); });
  const auto header = check_gguf(file, "test");
  ASSERT_TRUE(header.ok()) << header.error().message;
  ASSERT_EQ(header->keys.size(), 1U);
  EXPECT_EQ(header->keys[0].name, "a.key");
  EXPECT_EQ(header->keys[0].type, GgufType::kUint32);
  ASSERT_EQ(header->tensors.size(), 1U);
  EXPECT_EQ(header->tensors[0].byte_count, 128U);
  EXPECT_EQ(header->tensors[0].file_offset, header->data_offset);
  EXPECT_EQ(header->data_offset % 32, 0U);
}

TEST(GgufCheck, EveryPrefixOfASoundFileIsRefusedWithoutReadingPastItsEnd) {
  const auto file = one_tensor_file(3, [](ByteWriter& out) {
    out.text("a").u32(4).u32(7);
    out.text("b").u32(8).text("some text");
    out.text("c").u32(9).u32(8).u64(2).text("x").text("y");
  });
  ASSERT_TRUE(check_gguf(file, "test").ok());
  for (std::size_t size = 0; size < file.size(); ++size) {
    // A copy of exactly this size, so that AddressSanitizer sees a read past its end.
    const std::vector<std::byte> prefix(file.begin(), file.begin() + static_cast<long>(size));
    EXPECT_FALSE(check_gguf(prefix, "test").ok()) << size;
  }
}

TEST(GgufCheck, NoSingleChangedByteOfTheHeaderCrashesTheReaders) {
  auto file = read_bytes(kGenerated + "/tiny-Q4_0.gguf");
  ASSERT_GT(file.size(), 1000U);
  const std::size_t header = check_gguf(file, "tiny")->data_offset;
  file.resize(header + 64);  // most variants then fail early, which keeps the test short
  const std::vector<std::byte> original = file;
  for (std::size_t at = 0; at < header; at += at < 2000 ? 1 : 37) {
    for (const unsigned value : {0x00U, 0x01U, 0x7FU, 0x80U, 0xFFU}) {
      file[at] = static_cast<std::byte>(value);
      const auto result = check_gguf(file, "tiny");
      EXPECT_TRUE(result.ok() || !result.error().message.empty());
      file[at] = original[at];
    }
  }
}

// O-32: each malformed file is refused by the header check itself where the header is at fault,
// and never crashes; files whose numbers merely contradict each other open and are refused later
// (shape_reader_test, model_test).
TEST(GgufCheck, RefusesEveryMalformedFileOfTheManifestNamingFileAndField) {
  std::ifstream manifest(kGenerated + "/bad/manifest.tsv");
  ASSERT_TRUE(manifest) << "run the target generated_models";
  std::string line;
  int refused = 0;
  int opened = 0;
  while (std::getline(manifest, line)) {
    const auto parts = split(line, '\t');
    ASSERT_EQ(parts.size(), 3U) << line;
    const std::string path = kGenerated + "/bad/" + std::string(parts[0]);
    const auto file = GgufFile::open(path);
    if (file.ok()) {
      EXPECT_TRUE(parts[1] != "data_loss" || parts[2].find("weight") != std::string_view::npos ||
                  parts[2] == "blk.3.")
          << line;
      ++opened;
      continue;
    }
    ++refused;
    const Error& error = file.error();
    EXPECT_EQ(error.code, parts[1] == "unsupported" ? Code::kUnsupported : Code::kDataLoss) << line;
    EXPECT_NE(error.message.find(parts[2]), std::string::npos) << line << "\n" << error.message;
    EXPECT_NE(error.message.find(std::string(parts[0])), std::string::npos) << error.message;
    EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
    EXPECT_FALSE(error.hint.empty()) << line;
    EXPECT_FALSE(error.field.empty()) << line;
  }
  EXPECT_GE(refused, 55);
  EXPECT_GE(opened, 30);
}

TEST(GgufCheck, DoesNotAllocateWhatAFileClaims) {  // O-32
  struct rusage before{};
  getrusage(RUSAGE_SELF, &before);
  for (const char* name : {"key-count-2^63", "tensor-count-2^63", "string-length-2^40",
                           "array-count-2^61", "dimension-2^42+1", "string-of-50-MiB"}) {
    EXPECT_FALSE(GgufFile::open(kGenerated + "/bad/" + name + ".gguf").ok()) << name;
  }
  struct rusage after{};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 32 * 1024);  // KiB
}

TEST(GgufCheck, MessagesCarryHostileNamesAsOneReadableLine) {
  const std::string key = std::string("bad\n\x1b[31m\xFF") + std::string(300, 'k');
  const auto file = one_tensor_file(1, [&](ByteWriter& out) { out.text(key).u32(99); });
  const auto result = check_gguf(file, "test");
  ASSERT_FALSE(result.ok());
  EXPECT_TRUE(is_valid_utf8(result.error().message));
  for (const char c : result.error().message) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
  EXPECT_LT(result.error().message.size(), 300U);
}

TEST(GgufCheck, AFullSetOfKeysIsCheckedInLittleTime) {
  const auto file = one_tensor_file(GgufLimits::kKeys, [](ByteWriter& out) {
    for (std::uint64_t i = 0; i < GgufLimits::kKeys; ++i)
      out.text(str_cat("a.rather.long.common.prefix.", i)).u32(4).u32(7);
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(GgufFile::from_bytes(file, "many keys").ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(GgufCheck, OneKeyTooManyIsRefused) {
  const auto file = one_tensor_file(GgufLimits::kKeys + 1, [](ByteWriter& out) {
    for (std::uint64_t i = 0; i <= GgufLimits::kKeys; ++i) out.text(str_cat("k", i)).u32(4).u32(7);
  });
  EXPECT_FALSE(check_gguf(file, "test").ok());
}

TEST(GgufFile, SaysWhyAFileCannotBeOpened) {
  EXPECT_EQ(GgufFile::open("/nonexistent/model.gguf").error().code, Code::kNotFound);
  EXPECT_EQ(GgufFile::open(kGenerated).error().code, Code::kInvalidArgument);
  const std::string pipe = ::testing::TempDir() + "/refrain-gguf-pipe";
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(GgufFile::open(pipe).error().code, Code::kInvalidArgument);  // and does not wait
  std::remove(pipe.c_str());
}

TEST(GgufFile, GettersGiveValuesNothingOrTheNameOfTheWrongType) {
  const auto bytes = one_tensor_file(9, [](ByteWriter& out) {
    out.text("u8").u32(0).raw("\x07", 1);
    out.text("i32").u32(5).u32(static_cast<std::uint32_t>(-5));
    out.text("u64").u32(10).u64(~0ULL);
    out.text("flag").u32(7).raw("\x01", 1);
    const float real = 0.5F;
    out.text("real").u32(6).raw(&real, 4);
    const double wide = 0.25;
    out.text("wide").u32(12).raw(&wide, 8);
    out.text("text").u32(8).text(std::string_view("a\0b", 3));
    out.text("list").u32(9).u32(8).u64(2).text("x").text("");
    out.text("ints").u32(9).u32(3).u64(2).raw("\xFF\xFF\x02\x00", 4);
  });
  const auto file = GgufFile::from_bytes(bytes, "test");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const GgufFile& gguf = **file;
  EXPECT_EQ(*gguf.get_uint("u8"), 7U);
  EXPECT_EQ(*gguf.get_uint("u64"), ~0ULL);
  EXPECT_EQ(*gguf.get_uint("absent"), std::nullopt);
  EXPECT_NE(gguf.get_uint("i32").error().message.find("-5"), std::string::npos);
  EXPECT_EQ(*gguf.get_bool("flag"), true);
  EXPECT_EQ(*gguf.get_real("real"), 0.5);
  EXPECT_EQ(*gguf.get_real("wide"), 0.25);
  EXPECT_EQ(*gguf.get_text("text"), std::string("a\0b", 3));
  EXPECT_EQ(**gguf.get_text_list("list"), (std::vector<std::string>{"x", ""}));
  EXPECT_EQ(**gguf.get_int_list("ints"), (std::vector<std::int64_t>{-1, 2}));
  EXPECT_EQ(*gguf.get_real_list("absent"), std::nullopt);
  for (const auto& error : {gguf.get_uint("text").error(), gguf.get_uint("list").error()}) {
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_NE(error.message.find(error.field), std::string::npos);
  }
  EXPECT_NE(gguf.get_real("u8").error().message.find("uint8"), std::string::npos);
  EXPECT_NE(gguf.get_text_list("ints").error().message.find("array of int16"), std::string::npos);
  EXPECT_FALSE(gguf.get_int_list("list").ok());
  EXPECT_FALSE(gguf.get_bool("u8").ok());
}

TEST(GgufFile, ATensorsDataIsThatOfTheFile) {
  const auto bytes = one_tensor_file(0, [](ByteWriter&) {});
  const auto file = GgufFile::from_bytes(bytes, "test");
  ASSERT_TRUE(file.ok());
  const TensorInfo* tensor = (*file)->find_tensor("weight");
  ASSERT_NE(tensor, nullptr);
  const auto data = (*file)->tensor_data(*tensor);
  ASSERT_EQ(data.size(), 128U);
  float first = 0;
  std::memcpy(&first, data.data(), sizeof(first));
  EXPECT_EQ(first, 1.0F);
  EXPECT_EQ((*file)->find_tensor("other"), nullptr);
}

}  // namespace
}  // namespace refrain::model
