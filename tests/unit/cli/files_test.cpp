// Model look-up, the console, and lines from a pipe.
#include "cli/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "cli/console.h"
#include "cli/line_reader.h"

namespace refrain::cli {
namespace {

namespace fs = std::filesystem;

class ModelFolders : public ::testing::Test {
 protected:
  ModelFolders()
      : root_(fs::temp_directory_path() / ("refrain_models_" + std::to_string(::getpid()))) {
    fs::create_directories(root_ / "a");
    fs::create_directories(root_ / "b");
  }
  ~ModelFolders() override { fs::remove_all(root_); }
  void touch(const std::string& name) { std::ofstream(root_ / name) << "x"; }
  std::string at(const std::string& name) const { return (root_ / name).string(); }
  std::vector<std::string> folders() const { return {at("a"), at("b")}; }

  fs::path root_;
};

TEST_F(ModelFolders, GiveTheDefaultModelFromTheFirstThatHasIt) {
  touch("b/" + std::string(kDefaultModelFile));
  EXPECT_EQ(*find_model("", folders()), at("b/" + std::string(kDefaultModelFile)));
  touch("a/" + std::string(kDefaultModelFile));
  EXPECT_EQ(*find_model("", folders()), at("a/" + std::string(kDefaultModelFile)));
}

TEST_F(ModelFolders, AreSearchedForABareNameWithOrWithoutItsEnding) {
  touch("b/tiny.gguf");
  EXPECT_EQ(*find_model("tiny", folders()), at("b/tiny.gguf"));
  EXPECT_EQ(*find_model("tiny.gguf", folders()), at("b/tiny.gguf"));
  EXPECT_EQ(*find_model(at("b/tiny.gguf"), folders()), at("b/tiny.gguf"));
}

TEST_F(ModelFolders, AreListedWhenTheModelIsMissingAndTheHintSaysWhatToDo) {
  const auto found = find_model("", folders());
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, Code::kNotFound);
  EXPECT_NE(found.error().message.find(at("a")), std::string::npos);
  EXPECT_NE(found.error().hint.find("scripts/setup.sh"), std::string::npos);
  EXPECT_FALSE(find_model(at("nothing.gguf"), folders()).ok());
  EXPECT_NE(find_model(at("a"), folders()).error().message.find("is a folder"), std::string::npos);
}

TEST(ModelFolderList, ComesFromEnvironmentDataFolderAndBuildTree) {
  const Environment environment = [](const std::string& name) {
    if (name == "REFRAIN_MODEL_DIR") return std::string("/models");
    return name == "HOME" ? std::string("/home/u") : std::string{};
  };
  EXPECT_EQ(model_folders(environment, "/src/refrain/build/release/refrain"),
            (std::vector<std::string>{"/models", "/home/u/.local/share/refrain/models",
                                      "/src/refrain/.deps/models"}));
}

TEST(ReadFile, SaysWhatIsWrong) {
  EXPECT_EQ(read_file("/nowhere", 10).error().code, Code::kNotFound);
  EXPECT_NE(read_file("/tmp", 10).error().message.find("folder"), std::string::npos);
  EXPECT_EQ(read_file("/proc/self/status", 10).error().code, Code::kTooLarge);
}

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends.data()), 0); }
  ~Pipe() {
    close_read();
    close_write();
  }
  void close_read() {
    if (ends[0] >= 0) ::close(ends[0]);
    ends[0] = -1;
  }
  void close_write() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
  std::string rest() {
    close_write();
    std::string text;
    std::array<char, 256> buffer{};
    ssize_t count = 0;
    while ((count = ::read(ends[0], buffer.data(), buffer.size())) > 0)
      text.append(buffer.data(), static_cast<std::size_t>(count));
    return text;
  }
  std::array<int, 2> ends{-1, -1};
};

TEST(Console, WritesErrorAndHintOnStderrWithoutColourIntoAPipe) {
  Pipe out, err;
  Console console(out.ends[1], err.ends[1], [](const std::string&) { return std::string{}; });
  console.error({Code::kNotFound, "no such thing\xff", "look elsewhere"});
  console.progress("loading", 0.5);
  console.out("data\n");
  EXPECT_EQ(err.rest(), "error: no such thing\xEF\xBF\xBD\nhint: look elsewhere\n");
  EXPECT_EQ(out.rest(), "data\n");
}

TEST(Console, NoticesThatItsReaderWentAway) {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe out, err;
  Console console(out.ends[1], err.ends[1], [](const std::string&) { return std::string{}; });
  EXPECT_TRUE(console.out("x"));
  out.close_read();
  EXPECT_FALSE(console.out("x"));
  EXPECT_TRUE(console.out_closed());
}

TEST(LineReader, GivesLinesHoweverTheyArriveAndTheLastWithoutBreak) {
  Pipe pipe;
  const std::string text = "one\r\ntwo\n\nlast\xff";
  ASSERT_EQ(::write(pipe.ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  pipe.close_write();
  LineReader reader(pipe.ends[0]);
  EXPECT_EQ(reader.next(), "one");
  EXPECT_EQ(reader.next(), "two");
  EXPECT_EQ(reader.next(), "");
  EXPECT_EQ(reader.next(), "last\xEF\xBF\xBD");
  EXPECT_EQ(reader.next(), std::nullopt);
}

}  // namespace
}  // namespace refrain::cli
