// Inputs of the program: pipes, headers, label columns, missing values, sizes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "imka/io/npy.hpp"
#include "support/command.hpp"
#include "support/temp_dir.hpp"

namespace {

using nlohmann::json;

std::string shell_path(const std::filesystem::path& path) {
    return "'" + path.string() + "'";
}

// Three features and a class, more than fits the buffer of a pipe.
std::string rows(int count, const std::string& separator = ",") {
    std::string text;
    for (int i = 0; i < count; ++i) {
        for (const int v : {i % 97, i * 7 % 101, i * 13 % 89}) text += std::to_string(v) + separator;
        text += i % 97 > 48 ? "yes\n" : "no\n";
    }
    return text;
}

std::string libsvm_rows(int count) {
    std::string text;
    for (int i = 0; i < count; ++i)
        text +=
            (i % 2 == 0 ? "1 1:" : "-1 1:") + std::to_string(i % 97) + " 3:" + std::to_string(i % 11) + "\n";
    return text;
}

constexpr const char* kMap = " --kernel rbf --n-components 6 --quiet --json ";

// Runs a command on x through cat: as standard input, a process substitution's pipe and a FIFO.
void expect_same_through_pipes(const std::filesystem::path& file, const std::string& before,
                               const std::string& after, const std::filesystem::path& output) {
    const TempDir dir;
    const auto direct = run_imka(before + shell_path(file) + after);
    ASSERT_EQ(direct.exit_code, 0) << direct.err;
    const auto expected = imka::read_file(output, 1U << 28U);
    const auto fifo = dir / "fifo";
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    const auto cat = "cat " + shell_path(file) + " ";
    for (const auto& [start, name] : {std::pair{cat + "| ", std::string("/dev/stdin")},
                                      {cat + "> " + shell_path(fifo) + " & ", shell_path(fifo)}}) {
        std::filesystem::remove(output);
        const auto command = start + shell_path(binary_dir() + "/imka") + " " + before + name + after +
                             " > " + shell_path(dir / "out") + " 2> " + shell_path(dir / "err");
        EXPECT_EQ(std::system(command.c_str()), 0) << command << "\n"
                                                   << imka::read_file(dir / "err", 1U << 20U);
        EXPECT_EQ(imka::read_file(output, 1U << 28U), expected) << command;
    }
}

TEST(Input, APipeGivesTheFeaturesOfTheFile) {
    const TempDir dir;
    write_text(dir / "x.csv", rows(30'000));
    write_text(dir / "x.libsvm", libsvm_rows(30'000));
    const auto out = dir / "z.npy";
    const auto end = kMap + std::string("--output ") + shell_path(out);
    for (const std::string more :
         {"", " --standardize", " --gamma scale", " --backend hermes --gamma 0.01"}) {
        expect_same_through_pipes(dir / "x.csv", "features --format csv --input ", more + end, out);
        expect_same_through_pipes(dir / "x.libsvm", "features --format libsvm --input ", more + end, out);
    }
}

TEST(Input, APipeGivesTheModelAndPredictionsOfTheFile) {
    const TempDir dir;
    write_text(dir / "x.csv", rows(30'000));
    const auto model = dir / "m.imka";
    const auto out = dir / "y.csv";
    expect_same_through_pipes(dir / "x.csv", "ridge --format csv --n-components 16 --quiet --dataset ",
                              " --save " + shell_path(model), model);
    for (const std::string more : {"", " --backend hermes"}) {
        expect_same_through_pipes(
            dir / "x.csv", "ridge --quiet --format csv --load " + shell_path(model) + more + " --predict ",
            " --output " + shell_path(out), out);
    }
    expect_same_through_pipes(dir / "x.csv", "data export --input-format csv ",
                              " --output " + shell_path(out), out);
}

TEST(Input, ASpoolThatDoesNotFitIsAnError) {
    const TempDir dir;
    write_text(dir / "x.csv", rows(30'000));
    const auto r = run_imka("features --format csv --input " + shell_path(dir / "fifo") + " --output " +
                                shell_path(dir / "z.npy") + kMap,
                            "mkfifo " + shell_path(dir / "fifo") + "; (cat " + shell_path(dir / "x.csv") +
                                " > " + shell_path(dir / "fifo") + " 2> /dev/null &) ; TMPDIR=/proc");
    EXPECT_EQ(r.exit_code, 3);
    EXPECT_NE(r.err.find("cannot be copied to a temporary file in /proc"), std::string::npos) << r.err;
    EXPECT_FALSE(std::filesystem::exists(dir / "z.npy"));
}

TEST(Input, CsvAndNpyHaveTheSameColumns) {
    const TempDir dir;
    write_text(dir / "x.csv", "0.5,1,2\n3,4,5\n6,7,9\n");
    imka::Matrix<float> x(3, 3);
    const std::vector<float> values = {0.5F, 1, 2, 3, 4, 5, 6, 7, 9};
    std::ranges::copy(values, x.values().begin());
    imka::write_npy(dir / "x.npy", x.view());
    for (const std::string name : {"x.csv", "x.npy"}) {
        const auto r = run_imka("features --input " + shell_path(dir / name) + " --output " +
                                shell_path(dir / (name + ".z")) + kMap);
        ASSERT_EQ(r.exit_code, 0) << r.err;
        EXPECT_EQ(json::parse(r.out).at("d"), 3) << name;
    }
    EXPECT_EQ(imka::read_file(dir / "x.csv.z", 1U << 20U), imka::read_file(dir / "x.npy.z", 1U << 20U));
}

TEST(Input, HeadersDroppedColumnsAndMissingValues) {
    const TempDir dir;
    const auto features = [&](const std::string& text, const std::string& more) {
        write_text(dir / "x.csv", text);
        return run_imka("features --input " + shell_path(dir / "x.csv") + " --output " +
                        shell_path(dir / "z.npy") + kMap + more);
    };
    auto r = features("2019,2020,outcome\n1,2,0\n3,4,1\n", "");
    EXPECT_EQ(json::parse(r.out).at("rows"), 2);
    EXPECT_NE(r.err.find("the first line is a header"), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("no label; 3 features"), std::string::npos) << r.err;
    r = features("2019,2020,outcome\n1,2,0\n3,4,1\n", "--label-column outcome --drop-columns 2019");
    EXPECT_EQ(json::parse(r.out).at("d"), 1);
    r = features("0,1,2\n1,2,0\n3,4,1\n", "--header yes");
    EXPECT_EQ(json::parse(r.out).at("rows"), 2);
    r = features("0,1,2\n1,2,0\n3,4,1\n", "--header no");
    EXPECT_EQ(json::parse(r.out).at("rows"), 3);
    const std::string holes = "a,b\n1,2\nNA,3\n4,\n5,6\n";
    r = features(holes, "");
    EXPECT_EQ(r.exit_code, 3);
    EXPECT_NE(r.err.find("line 3: column 1 ('a'): 'NA' is a missing value; --missing drop"),
              std::string::npos)
        << r.err;
    r = features(holes, "--missing drop");
    EXPECT_EQ(json::parse(r.out).at("rows"), 2);
    EXPECT_NE(r.err.find("2 of 4 rows dropped"), std::string::npos) << r.err;
    r = features(holes, "--missing mean");
    EXPECT_EQ(json::parse(r.out).at("rows"), 4);
    EXPECT_NE(r.err.find("2 missing values replaced"), std::string::npos) << r.err;
}

TEST(Input, EveryVerbTakesTheFileOptions) {
    for (const auto* verb : {"features", "ridge", "gram", "data show", "data export"}) {
        const auto help = run_imka(std::string(verb) + " --help").out;
        for (const auto* option : {"--header", "--label-column", "--drop-columns", "--missing"})
            EXPECT_NE(help.find(option), std::string::npos) << verb << " " << option;
    }
    const TempDir dir;
    write_text(dir / "x.csv", "id,a,y\n7,1,u\n8,NA,v\n9,3,u\n10,4,v\n11,5,u\n12,6,v\n");
    const auto r = run_imka("data show " + shell_path(dir / "x.csv") +
                            " --drop-columns id --missing drop --header yes --label-column y --json");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(json::parse(r.out).at("d"), 1);
}

TEST(Input, AFitThatCannotFitInMemoryIsRefused) {
    const TempDir dir;
    std::string text;
    for (int r = 0; r < 8; ++r) {
        for (int c = 0; c < 3000; ++c) text += std::to_string((r * 31 + c * 7) % 101) + ",";
        text += r % 2 == 0 ? "a\n" : "b\n";
    }
    write_text(dir / "x.csv", text);
    const auto r = run_imka("ridge --n-components 40000000 --dataset " + shell_path(dir / "x.csv"));
    EXPECT_EQ(r.exit_code, 2) << r.err;
    EXPECT_NE(r.err.find("GB of this machine"), std::string::npos) << r.err;
}

TEST(Input, IntegersOfDataVerbsHaveRanges) {
    const TempDir dir;
    const auto refuse = [](const std::string& arguments, const std::string& message) {
        const auto r = run_imka("data " + arguments);
        EXPECT_EQ(r.exit_code, 2) << arguments << r.err;
        EXPECT_NE(r.err.find(message), std::string::npos) << arguments << "\n" << r.err;
    };
    const auto generate = "generate twonorm --output " + shell_path(dir / "a.csv");
    for (const std::string value :
         {"-1", "x", "1.5", "18446744073709551616", "1e3", "-9223372036854775808"}) {
        const auto faulty = ": '" + value + "' is ";
        refuse(generate + " --rows " + value, "--rows" + faulty);
        refuse(generate + " --rows 1 --seed " + value, "--seed" + faulty);
        for (const std::string option : {"--split-seed ", "--train-rows ", "--test-rows ", "--rows "})
            refuse("show twonorm " + option + value, faulty);
        refuse("fetch magic --retries " + value, "--retries");
    }
    refuse(generate + " --rows 0", "--rows: 0 is out of range");
    refuse(generate + " --rows 9223372036854775808", "out of range");
    refuse("show twonorm --train-rows 9223372036854775808", "out of range");
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(Input, GeneratedFilesMustFitTheDisk) {
    const TempDir dir;
    for (const std::string name : {"a.csv", "a.npy", "a.libsvm"}) {
        const auto r =
            run_imka("data generate twonorm --rows 1000000000000000 --output " + shell_path(dir / name));
        EXPECT_EQ(r.exit_code, 3) << r.err;
        EXPECT_NE(r.err.find("but the disk has"), std::string::npos) << r.err;
    }
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
