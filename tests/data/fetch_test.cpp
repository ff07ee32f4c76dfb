// Downloads from a local test server.
#include "imka/data/fetch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/random.hpp"
#include "support/http_server.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

// A CSV of 2,000 rows, about 60 kB.
std::string csv_text() {
    std::string text;
    for (std::uint64_t r = 0; r < 2000; ++r) {
        for (std::uint64_t c = 0; c < 3; ++c)
            text += std::to_string(random_bits(1, Stream::test, 3 * r + c) % 100000) + ",";
        text += r % 2 == 0 ? "a\n" : "b\n";
    }
    return text;
}

class Fetch : public testing::Test {
protected:
    Fetch() : text_(csv_text()) {
        write_file_atomic(dir_ / "expected.csv", text_);
        SourceFile file;
        file.names = {"some data.csv"};
        file.url = "https://example.org/x/y/some%20data.csv";
        file.read.format = Format::csv;
        file.read.label_column = "last";
        file.rows = 2000;
        file.table_sha256 = table_sha256(read_table(dir_ / "expected.csv", file.read));
        set_.name = "some";
        set_.folder = "some-folder";
        set_.files = {file};
    }

    std::filesystem::path target() const { return dir_ / "data/some-folder/some data.csv"; }
    std::filesystem::path beside(const std::string& ending) const { return target().string() + ending; }
    std::string content() const { return read_file(target(), 1U << 20U); }
    FetchOptions options(const HttpServer& server) const {
        return {.data_dir = dir_ / "data", .base_url = server.url() + "/", .retries = 2, .backoff = 1ms};
    }
    std::map<std::string, std::string> files(const std::string& text) const {
        return {{"/some-folder/some%20data.csv", text}};
    }

    TempDir dir_;
    std::string text_;
    RegisteredSet set_;
};

TEST_F(Fetch, GetsAFileAndLeavesNothingElse) {
    const HttpServer server(files(text_), {});
    const auto fetched = fetch_dataset(set_, options(server), {});
    ASSERT_EQ(fetched.size(), 1U);
    EXPECT_TRUE(fetched[0].downloaded);
    EXPECT_EQ(fetched[0].path, target());
    EXPECT_EQ(content(), text_);
    EXPECT_FALSE(std::filesystem::exists(beside(".part")));
    EXPECT_THAT(server.requests(), ElementsAre("GET /some-folder/some%20data.csv HTTP/1.1 []"));
}

TEST_F(Fetch, SkipsCorrectFiles) {
    const HttpServer server(files(text_), {});
    fetch_dataset(set_, options(server), {});
    const auto again = fetch_dataset(set_, options(server), {});
    EXPECT_FALSE(again[0].downloaded);
    EXPECT_EQ(server.requests().size(), 1U);
}

TEST_F(Fetch, ReplacesADamagedFile) {
    const HttpServer server(files(text_), {});
    std::filesystem::create_directories(target().parent_path());
    write_file_atomic(target(), text_.substr(0, text_.find('\n') + 1));
    EXPECT_TRUE(fetch_dataset(set_, options(server), {})[0].downloaded);
    EXPECT_EQ(content(), text_);
}

TEST_F(Fetch, ContinuesAfterACutConnection) {
    const HttpServer server(files(text_), {.cut_after = 10000, .cuts = 2});
    fetch_dataset(set_, options(server), {});
    EXPECT_EQ(content(), text_);
    EXPECT_THAT(server.requests(), ElementsAre("GET /some-folder/some%20data.csv HTTP/1.1 []",
                                               "GET /some-folder/some%20data.csv HTTP/1.1 [bytes=10000-]",
                                               "GET /some-folder/some%20data.csv HTTP/1.1 [bytes=20000-]"));
}

TEST_F(Fetch, ContinuesInALaterCall) {
    const HttpServer server(files(text_), {.cut_after = 5000, .cuts = 1});
    auto once = options(server);
    once.retries = 0;
    try {
        fetch_dataset(set_, once, {});
        FAIL() << "the connection was cut";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::io);
        EXPECT_THAT(e.what(), HasSubstr("next fetch resumes it"));
    }
    EXPECT_FALSE(std::filesystem::exists(target()));
    EXPECT_EQ(std::filesystem::file_size(beside(".part")), 5000U);
    fetch_dataset(set_, once, {});
    EXPECT_EQ(content(), text_);
    EXPECT_THAT(server.requests().back(), HasSubstr("[bytes=5000-]"));
}

TEST_F(Fetch, RestartsWhenTheServerDoesNotSupportRanges) {
    const HttpServer server(files(text_), {.ranges = false, .cut_after = 10000, .cuts = 1});
    fetch_dataset(set_, options(server), {});
    EXPECT_EQ(content(), text_);
}

TEST_F(Fetch, RestartsWhenThePartialFileIsTooLong) {
    const HttpServer server(files(text_), {});
    std::filesystem::create_directories(target().parent_path());
    write_file_atomic(beside(".part"), text_ + text_);  // longer than the file: 416
    fetch_dataset(set_, options(server), {});
    EXPECT_EQ(content(), text_);
}

TEST_F(Fetch, RestartsWhenThePartialFileIsOfAnotherFile) {
    const HttpServer server(files(text_), {});
    std::filesystem::create_directories(target().parent_path());
    write_file_atomic(beside(".part"), std::string(1000, '7'));
    fetch_dataset(set_, options(server), {});
    EXPECT_EQ(content(), text_);
}

TEST_F(Fetch, RejectsAWrongTable) {
    auto wrong = text_;
    wrong[0] = wrong[0] == '1' ? '2' : '1';
    const HttpServer server(files(wrong), {});
    try {
        fetch_dataset(set_, options(server), {});
        FAIL() << "a wrong table was taken";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_data);
        EXPECT_THAT(e.what(), HasSubstr(set_.files[0].table_sha256));
        EXPECT_THAT(e.what(), HasSubstr(".rejected"));
    }
    EXPECT_FALSE(std::filesystem::exists(target()));
    EXPECT_FALSE(std::filesystem::exists(beside(".part")));
    EXPECT_TRUE(std::filesystem::exists(beside(".rejected")));
}

TEST_F(Fetch, ReportsAMissingFile) {
    const HttpServer server({}, {});
    try {
        fetch_dataset(set_, options(server), {});
        FAIL() << "404 was taken for a file";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::io);
        EXPECT_THAT(e.what(), HasSubstr("HTTP 404"));
        EXPECT_THAT(e.what(), HasSubstr(server.url()));
    }
    EXPECT_EQ(server.requests().size(), 1U);  // permanent: no retry
    EXPECT_TRUE(std::filesystem::is_empty(target().parent_path()));
}

TEST_F(Fetch, TriesAgainWhenTheServerIsBusy) {
    const HttpServer server(files(text_), {.busy = 2});
    fetch_dataset(set_, options(server), {});
    EXPECT_EQ(content(), text_);
    EXPECT_EQ(server.requests().size(), 3U);
}

TEST_F(Fetch, GivesUpWhenNobodyListens) {
    FetchOptions o;
    {
        const HttpServer gone({}, {});
        o = options(gone);
    }
    EXPECT_THROW(fetch_dataset(set_, o, {}), Error);
    EXPECT_FALSE(std::filesystem::exists(target()));
}

TEST_F(Fetch, StopsAtTheSizeLimit) {
    const HttpServer server(files(text_), {});
    auto o = options(server);
    o.max_bytes = 1000;
    try {
        fetch_dataset(set_, o, {});
        FAIL() << "too large a file was taken";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_data);
    }
}

TEST_F(Fetch, StopsWhenAsked) {
    const HttpServer server(files(text_), {});
    const std::atomic<bool> cancel{true};
    try {
        fetch_dataset(set_, options(server), {.cancel = &cancel});
        FAIL() << "went on";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::interrupted);
    }
    EXPECT_FALSE(std::filesystem::exists(target()));
}

TEST_F(Fetch, RefusesAddressesThatAreNotHttp) {
    auto o = FetchOptions{.data_dir = dir_ / "data", .base_url = "file:///etc", .retries = 0};
    try {
        fetch_dataset(set_, o, {});
        FAIL() << "a local file was read";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_usage);
    }
}

TEST(UrlFileName, IsDecodedAndPlain) {
    EXPECT_EQ(url_file_name("https://a.org/b/EEG%20Eye%20State.arff"), "EEG Eye State.arff");
    EXPECT_THROW(url_file_name("https://a.org/b/"), Error);
    EXPECT_THROW(url_file_name("https://a.org/b/..%2Fc"), Error);
    EXPECT_THROW(url_file_name("https://a.org/b%2Fc"), Error);
}

}  // namespace
}  // namespace imka
