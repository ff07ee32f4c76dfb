// The data file about the paper: strict keys, known checks, protocol differences.
#include "imka/report/paper.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "imka/experiment/spec.hpp"
#include "imka/report/figure.hpp"
#include "support/error.hpp"

namespace {

using namespace imka::report;
using testing::HasSubstr;

// A small file with one statement.
std::string file(const std::string& statement) {
    return "reproductions:\n"
           "  - {name: a, table: t, title: T, what: W}\n"
           "published_runs: a\n"
           "sizes:\n"
           "  - {name: best, best: yes}\n"
           "goals:\n"
           "  gram_error:\n"
           "    - {kernel: rbf, rms: 0.5}\n"
           "  accuracy_share: 0.75\n"
           "protocol_differences:\n"
           "  - {text: always}\n"
           "notes:\n"
           "  one: remark\n"
           "statements:\n"
           "  - " +
           statement + "\n";
}

TEST(Paper, IsReadFromItsFile) {
    const auto p = parse_paper(file("{text: S, check: gap_is_wider, kernel: rbf, than: arccos0}"));
    EXPECT_EQ(p.reproductions.at(0).name, "a");
    EXPECT_FALSE(p.reproductions.at(0).averages);
    EXPECT_EQ(p.goals.gram_error.at("rbf"), 0.5);
    EXPECT_EQ(p.goals.accuracy_share, 0.75);
    EXPECT_EQ(p.notes.at("one"), "remark");
    EXPECT_EQ(p.statements.at(0).than, "arccos0");
}

TEST(Paper, RejectsArgumentsThatACheckDoesNotUse) {
    EXPECT_THAT(error_of([] { parse_paper(file("{text: S, check: rises}")); }),
                HasSubstr("line 15: unknown check 'rises'; known: error_falls, errs_less"));
    EXPECT_THAT(error_of([] { parse_paper(file("{text: S, check: gap_is_wider, kernel: rbf}")); }),
                HasSubstr("than"));
    EXPECT_THAT(error_of([] { parse_paper(file("{text: S, check: error_falls, kernel: rbf}")); }),
                HasSubstr("kernel"));
    EXPECT_THAT(error_of([] {
                    parse_paper(
                        file("{text: S, check: error_within, dataset: a, kernel: b, backend: chip, "
                             "samplers: [rff], sizes: [5], range: [2, 1]}"));
                }),
                HasSubstr("expected [low, high]"));
}

TEST(Paper, EmbeddedFileHasWhatReportsNeed) {
    EXPECT_EQ(reproductions().size(), 21U);
    for (const auto& r : reproductions()) {
        const auto experiments = imka::known_experiments();
        EXPECT_EQ(r.runs,
                  std::ranges::find(experiments, r.name, &imka::KnownExperiment::name) != experiments.end())
            << r.name;
    }
    EXPECT_EQ(find_reproduction("attention_error_trained")->qkv_of, "imdb-hwa.safetensors");
    EXPECT_EQ(find_reproduction("liu")->table, "liu");
    EXPECT_EQ(find_reproduction("mine"), nullptr);
    EXPECT_EQ(paper().sizes.size(), 3U);
    EXPECT_EQ(paper().statements.size(), 14U);
    // The goals of docs/fidelity.md.
    EXPECT_EQ(paper().goals.gram_error.at("rbf"), 0.15);
    EXPECT_EQ(paper().goals.gram_error.at("arccos0"), 0.12);
    EXPECT_EQ(paper().goals.accuracy_share, 0.90);
}

TEST(Paper, SaysHowProtocolsDiffer) {
    EXPECT_EQ(protocol_difference("letter", "rbf", "rff"),
              "another protocol: m = 2^r d instead of 2^r d − r; test rows standardised with the statistics "
              "of the training part instead of their own; Gaussian entries not truncated at 3 standard "
              "deviations; 26 classes instead of "
              "A–M against N–Z");
    EXPECT_EQ(protocol_difference("eeg", "arccos0", "orf"),
              "another protocol: m = 2^r d instead of 2^r d − r; rows standardised with the statistics of "
              "the training part instead of the whole set; unbiased (Haar) orthogonal directions instead of "
              "biased Householder signs");
}

}  // namespace
