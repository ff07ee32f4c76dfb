// Experiment files: syntax, the runs they give, and errors.
#include "imka/experiment/spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "imka/base/file.hpp"
#include "imka/experiment/sweep.hpp"
#include "support/error.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kText =
    "name: try\n"
    "title: A try\n"
    "kind: ridge\n"
    "base:\n"
    "  gamma: 0.1  # width\n"
    "grid:\n"
    "  kernel: [rbf, arccos0]\n"
    "  log_ratio: [1, 2.5]\n"
    "  seeds: [0, 3..4]\n"
    "cases:\n"
    "  - {dataset: ringnorm, split_seed: seed}\n"
    "  - dataset: twonorm\n"
    "    alpha: 2\n";

Experiment parse(const std::string& text) {
    return parse_experiment(text, "e.yaml");
}

TEST(Experiment, CombinesEachCaseWithTheWholeGrid) {
    const auto e = parse(kText);
    EXPECT_EQ(e.name, "try");
    EXPECT_EQ(e.title, "A try");
    EXPECT_EQ(count_runs(e), 2U * 4U * 3U);
    const auto points = expand(e);
    ASSERT_EQ(points.size(), 8U);
    EXPECT_EQ(points[0].label, "dataset=ringnorm, split_seed=seed, kernel=rbf, log_ratio=1");
    EXPECT_EQ(points[1].config.features.log_ratio, 2.5);
    EXPECT_EQ(points[2].config.features.kernel, Kernel::arccos0);
    EXPECT_EQ(points[4].config.dataset, "twonorm");
    EXPECT_EQ(points[4].config.ridge.alpha, 2.0);
    EXPECT_EQ(points[0].config.ridge.alpha, 0.5);
    for (const auto& p : points) {
        EXPECT_EQ(p.config.features.gamma.value, 0.1);
        EXPECT_EQ(p.config.seeds, (std::vector<std::uint64_t>{0, 3, 4}));
    }
    const auto own = run_config(points[0], 3);
    EXPECT_EQ(own.seeds, std::vector<std::uint64_t>{3});
    EXPECT_EQ(own.split_seed, 3U);
    EXPECT_EQ(run_config(points[4], 3).split_seed, 0U);
}

TEST(Experiment, ACaseOrTheGridBeatsBase) {
    const auto points = expand(
        parse("name: a\nbase: {gamma: 0.1, split_seed: seed}\ncases:\n  - {gamma: scale, split_seed: 2}\n"));
    ASSERT_EQ(points.size(), 1U);
    EXPECT_FALSE(points[0].config.features.gamma.value.has_value());
    EXPECT_FALSE(points[0].split_by_seed);
    EXPECT_EQ(points[0].config.split_seed, 2U);
}

TEST(Experiment, AListInACaseGivesOneCasePerValue) {
    const auto points =
        expand(parse("name: a\ncases:\n  - {dataset: [ringnorm, twonorm], alpha: [1, 2], seeds: [0, 3]}\n"
                     "  - {dataset: waveform}\n"));
    ASSERT_EQ(points.size(), 5U);
    EXPECT_EQ(points[0].label, "dataset=ringnorm, alpha=1, seeds=0,3");
    EXPECT_EQ(points[1].config.ridge.alpha, 2.0);
    EXPECT_EQ(points[2].config.dataset, "twonorm");
    EXPECT_EQ(points[4].config.dataset, "waveform");
    EXPECT_EQ(points[3].config.seeds, (std::vector<std::uint64_t>{0, 3})) << "seeds are one value";
}

TEST(Experiment, NamedListsOfCasesAreCombined) {
    const auto e = parse(
        "name: a\ngrid: {kernel: [rbf, arccos0]}\ncases:\n"
        "  data:\n    - {dataset: [ringnorm, twonorm]}\n    - {dataset: waveform, alpha: 2, gamma: 0.1}\n"
        "  width:\n    - {}\n    - {gamma: 0.3}\n");
    const auto points = expand(e);
    ASSERT_EQ(points.size(), 3U * 2U * 2U);
    EXPECT_EQ(points[0].label, "dataset=ringnorm, kernel=rbf");
    EXPECT_EQ(points[2].label, "dataset=ringnorm, gamma=0.3, kernel=rbf");
    EXPECT_EQ(points[8].label, "dataset=waveform, alpha=2, gamma=0.1, kernel=rbf");
    EXPECT_EQ(points[10].label, "dataset=waveform, alpha=2, gamma=0.3, kernel=rbf") << "the later list wins";
    EXPECT_EQ(points[10].config.features.gamma.value, 0.3);
    EXPECT_EQ(count_runs(e), 12U);
    EXPECT_EQ(expand(parse(to_yaml(e))).size(), 12U);
    EXPECT_EQ(to_yaml(parse(to_yaml(e))), to_yaml(e));
}

TEST(Experiment, RoundTripsThroughYaml) {
    auto e = parse(kText);
    e.description = "quotes \" and: colons # and\nlines";
    const auto text = to_yaml(e);
    const auto again = parse(text);
    EXPECT_EQ(to_yaml(again), text);
    EXPECT_EQ(again.description, e.description);
    const auto a = expand(e);
    const auto b = expand(again);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(settings_text(a[i].config), settings_text(b[i].config));
        EXPECT_EQ(a[i].split_by_seed, b[i].split_by_seed);
    }
}

TEST(Experiment, ErrorsHaveFileAndLine) {
    const std::string head = "name: a\n";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "e.yaml: 'name' is missing"},
        {"just text", "e.yaml: line 1: expected 'key: value' pairs"},
        {"- a\n", "e.yaml: line 1: expected 'key: value' pairs"},
        {"grid: {kernel: [rbf]}\n", "e.yaml: line 1: 'name' is missing"},
        {head, "e.yaml: 'grid' or 'cases' is missing"},
        {head + "base: {gamma: 1}\n", "'grid' or 'cases' is missing"},
        {head + "gird: {kernel: [rbf]}\n", "e.yaml: line 2: 'gird' is not a known key; nearest: kind, grid"},
        {head + "name: b\n", "e.yaml: line 2: duplicate key 'name'"},
        {head + "grid: {}\n", "e.yaml: line 2: 'grid' is empty"},
        {head + "grid:\n", "e.yaml: line 2: 'grid' has no value"},
        {head + "cases: []\n", "e.yaml: line 2: 'cases' is empty"},
        {head + "cases: {kernel: rbf}\n", "e.yaml: line 2: 'cases': expected a list of cases"},
        {head + "cases: [rbf]\n", "'cases': expected 'setting: value' pairs"},
        {head + "grid: [rbf]\n", "e.yaml: line 2: grid: expected 'key: value' pairs"},
        {head + "grid:\n  kernel: []\n", "e.yaml: line 3: 'kernel': the list is empty"},
        {head + "grid:\n  seeds: []\n", "e.yaml: line 3: 'seeds': the list is empty"},
        {head + "grid:\n  kernel: rbf\n", "e.yaml: line 3: 'kernel': expected a list such as [a, b]"},
        {head + "grid:\n  kernel: {a: b}\n", "e.yaml: line 3: 'kernel': expected a list"},
        {head + "grid:\n  kernel: [rbf, [arccos0]]\n", "'kernel': expected a list of scalars"},
        {head + "grid:\n  kernel: [rbf, rbx]\n", "e.yaml: line 3: 'rbx' is not a known kernel; known: rbf"},
        {head + "grid:\n  kernel: [rbf, rbf]\n", "e.yaml: line 3: 'kernel': duplicate value"},
        {head + "grid:\n  kernel: [rbf]\n  kernel: [arccos0]\n", "e.yaml: line 4: duplicate key 'kernel'"},
        {head + "grid:\n  kernl: [rbf]\n", "e.yaml: line 3: 'kernl' is not a known setting; known: dataset"},
        {head + "grid:\n  alpha: [1, -2]\n", "e.yaml: line 3: alpha: -2 is out of range"},
        {head + "grid:\n  alpha: [1, much]\n", "e.yaml: line 3: alpha: 'much' is not a number"},
        {head + "grid:\n  seeds: 5..1\n", "counts backwards"},
        {head + "grid:\n  seeds: [1, 1]\n", "seeds: duplicate value"},
        {head + "grid:\n  seeds: {a: 1}\n", "'seeds': expected a scalar or a list"},
        {head + "grid:\n  split_seed: [sed]\n", "split_seed: 'sed' is not an integer"},
        {head + "base:\n  gamma: [1, 2]\ngrid: {kernel: [rbf]}\n",
         "e.yaml: line 3: 'gamma': expected one value; lists go into 'grid'"},
        {head + "grid: {kernel: [rbf]}\ncases:\n  - {kernel: arccos0}\n",
         "e.yaml: line 4: 'kernel' is in a case and in 'grid'"},
        {head + "kind: magic\n", "e.yaml: line 2: 'magic' is not a known kind; known: ridge"},
        {"name: A b\n", "e.yaml: line 1: invalid name 'A b'"},
        {"name: ../up\n", "invalid name '../up'"},
        {"name: [a]\n", "name: expected a scalar"},
        {head + "base: &x {gamma: 1}\n", "e.yaml: line 2: anchor '&x'"},
        {head + "base: *x\n", "e.yaml: line 2: not valid YAML: "},
        {head + "---\nname: b\n", "a second document"},
        {head + "grid: {kernel: [rbf\n", "e.yaml: line 3: not valid YAML: "},
        {head + "grid: {kernel: \"rbf\n", "e.yaml: line 3: not valid YAML: "},
        {head + "? [a]\n: b\n", "a key must be a scalar"},
        {head + "cases: [{seeds: [[[[1]]]]}]\n", "'seeds': expected a list of scalars"},
        {head + "cases: [{seeds: [[[[[[1]]]]]]}]\n", "more than 8 levels deep"},
    };
    for (const auto& [text, expected] : cases) {
        const auto error = error_of([&text = text] { (void)parse(text); });
        EXPECT_THAT(error, StartsWith("bad_config: e.yaml")) << text;
        EXPECT_THAT(error, HasSubstr(expected)) << text;
    }
}

// Each alias stands for ten of the one before: a billion values if expanded.
TEST(Experiment, AnAliasBombIsRefusedAtItsFirstAnchor) {
    std::string text = "name: a\na: &a [x, x, x, x, x, x, x, x, x, x]\n";
    for (char c = 'b'; c < 'k'; ++c) {
        text += std::string(1, c) + ": &" + c + " [";
        for (int i = 0; i < 10; ++i) text += std::string(i > 0 ? "," : "") + "*" + static_cast<char>(c - 1);
        text += "]\n";
    }
    EXPECT_THAT(error_of([&] { (void)parse(text); }), HasSubstr("e.yaml: line 2: anchor '&a'"));
    const std::string deep = "name: a\ngrid: " + std::string(100000, '[');
    EXPECT_THAT(error_of([&] { (void)parse(deep); }), StartsWith("bad_config"));
    std::string lists = "name: a\ncases:\n";
    for (const auto* name : {"dataset", "label_column"}) {
        lists += std::string("  ") + name + ":\n    - " + name + ": [";
        for (int i = 0; i < 200; ++i) lists += (i > 0 ? ", x" : "x") + std::to_string(i);
        lists += "]\n";
    }
    EXPECT_THAT(error_of([&] { (void)parse(lists); }), HasSubstr("40000 cases; at most 10000 are allowed"));
    std::string seeds = "name: a\ncases:\n";
    for (int i = 0; i < 20000; ++i) seeds += "  - {seeds: 0..99999}\n";
    EXPECT_THAT(error_of([&] { (void)parse(seeds); }),
                HasSubstr("line 13: more than 10000 cases or 1000000 seeds"));
}

TEST(Experiment, TooManyRunsAndTooLargeFilesAreRefused) {
    EXPECT_THAT(
        error_of([] {
            (void)expand(
                parse("name: a\ngrid: {log_ratio: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], seeds: 0..90909}\n"));
        }),
        HasSubstr("e.yaml: 1000010 runs; at most 1000000 are allowed"));
    const TempDir dir;
    write_file_atomic(dir / "big.yaml", "name: a\n#" + std::string(1U << 20U, 'x'));
    EXPECT_THAT(error_of([&] { (void)read_experiment(dir / "big.yaml"); }), HasSubstr("larger than"));
    EXPECT_THAT(error_of([&] { (void)read_experiment(dir / "none.yaml"); }), HasSubstr("cannot be read"));
}

TEST(Experiment, AnInvalidCombinationIsReportedBeforeAnythingStarts) {
    EXPECT_THAT(error_of([] {
                    (void)expand(parse("name: a\ngrid: {kernel: [rbf, laplace], sampler: [rff, orf]}\n"));
                }),
                HasSubstr("e.yaml: kernel=laplace, sampler=orf: "));
    EXPECT_THAT(
        error_of([] { (void)expand(parse("name: a\nbase: {n_components: 8}\ngrid: {log_ratio: [1]}\n")); }),
        HasSubstr("log_ratio=1: n_components and log_ratio both"));
    EXPECT_THAT(error_of([] {
                    (void)plan_sweep(parse("name: a\ngrid: {dataset: [ringnorm, lettre]}\n"), {}, Exec{});
                }),
                HasSubstr("e.yaml: dataset=lettre: "));
}

TEST(Experiment, SetReplacesSettingsOfBaseGridAndCases) {
    auto e = parse(kText);
    override_setting(e, "log_ratio", "3");
    override_setting(e, "gamma", "[0.2, scale]");
    override_setting(e, "dataset", "waveform");
    override_setting(e, "seeds", "7");
    const auto points = expand(e);
    ASSERT_EQ(points.size(), 2U * 2U * 2U);
    for (const auto& p : points) {
        EXPECT_EQ(p.config.features.log_ratio, 3.0);
        EXPECT_EQ(p.config.dataset, "waveform");
        EXPECT_EQ(p.config.seeds, std::vector<std::uint64_t>{7});
    }
    EXPECT_EQ(points[0].config.features.gamma.value, 0.2);
    EXPECT_FALSE(points[1].config.features.gamma.value.has_value());
    override_setting(e, "seeds", "[1, 3..5]");
    EXPECT_EQ(expand(e)[0].config.seeds.size(), 4U);
    for (const auto& [name, text, expected] :
         {std::tuple{"gamme", "1", "--set gamme=1: 'gamme' is not a known setting"},
          {"gamma", "[1, ]", "empty value in the list"},
          {"gamma", "[1, 1]", "duplicate value"},
          {"gamma", "-1", "gamma: -1 is out of range"}}) {
        EXPECT_THAT(error_of([&, n = name, t = text] { override_setting(e, n, t); }), HasSubstr(expected));
    }
}

TEST(KnownExperiments, AreValid) {
    const std::map<std::string_view, std::uint64_t> runs = {{"ridge", 3600},
                                                            {"fidelity", 2400},
                                                            {"fidelity_blind", 2400},
                                                            {"ridge_fp32", 1800},
                                                            {"ridge_measured", 1800},
                                                            {"liu", 450},
                                                            {"smoke", 108},
                                                            {"mitigation", 4680},
                                                            {"drift", 240},
                                                            {"ablation", 400},
                                                            {"replication", 100},
                                                            {"choromanski", 1620},
                                                            {"attention_error", 140},
                                                            {"attention_scaling", 27},
                                                            {"table1", 250},
                                                            {"full_test", 100},
                                                            {"relu", 50},
                                                            {"resampling", 90},
                                                            {"saved_omega", 160},
                                                            {"shared_omega", 40},
                                                            {"width", 120},
                                                            {"hwa_noise", 180},
                                                            {"embedding_init", 20},
                                                            {"performer_drift", 400},
                                                            {"attention_error_trained", 140}};
    EXPECT_EQ(known_experiments().size(), runs.size());
    for (const auto& known : known_experiments()) {
        const auto e = find_experiment(std::string(known.name));
        EXPECT_EQ(e.name, known.name);
        EXPECT_FALSE(e.title.empty() || e.description.empty());
        EXPECT_EQ(count_runs(e), runs.at(known.name)) << known.name;
        // Different settings are different runs. Trained models are not part of the tests.
        if (e.kind == "performer" || e.name == "attention_error_trained") {
            EXPECT_EQ(expand(e).size() * 10, runs.at(known.name));
            continue;
        }
        EXPECT_EQ(plan_sweep(e, {}, Exec{}).runs.size(), runs.at(known.name));
    }
    EXPECT_THAT(error_of([] { (void)find_experiment("smoek"); }),
                StartsWith("bad_usage: 'smoek' is neither a known experiment (ridge, "));
}

// Each experiment with combined cases has the same runs as its written-out form in flat/.
TEST(KnownExperiments, MatchTheirWrittenOutForms) {
    const auto runs = [](const Experiment& e) {
        std::multiset<std::string> all;
        for (const auto& run : plan_sweep(e, {}, Exec{}).runs) all.insert(run.key);
        return all;
    };
    int files = 0;
    const auto folder = std::filesystem::path(source_dir()) / "tests/experiment/flat";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const auto flat = read_experiment(entry.path());
        EXPECT_EQ(runs(find_experiment(flat.name)), runs(flat)) << flat.name;
        ++files;
    }
    EXPECT_EQ(files, 8);
}

TEST(KnownExperiments, ShareTheirRuns) {
    const auto keys = [](const std::string& name) {
        std::set<std::string> all;
        for (const auto& run : plan_sweep(find_experiment(name), {}, Exec{}).runs) all.insert(run.key);
        return all;
    };
    const auto shared = [](const std::set<std::string>& a, const std::set<std::string>& b) {
        return std::ranges::count_if(a, [&](const std::string& key) { return b.contains(key); });
    };
    const auto ridge = keys("ridge");
    EXPECT_EQ(shared(keys("ridge_measured"), ridge), 1800) << "FP32 as measured is half of ridge";
    EXPECT_EQ(shared(keys("fidelity"), ridge), 1200) << "ten of twenty seeds on four data sets";
    EXPECT_EQ(shared(keys("ridge_fp32"), ridge), 0) << "another protocol";
}

TEST(Documentation, ExampleExperimentHasTheStatedNumberOfRuns) {
    const auto text = read_file(std::filesystem::path(source_dir()) / "docs/howto/sweep.md", 1U << 20U);
    const std::string fence = "```yaml\n";
    const auto begin = text.find(fence) + fence.size();
    const auto e = parse_experiment(text.substr(begin, text.find("```", begin) - begin), "sweep.md");
    EXPECT_EQ(plan_sweep(e, {}, Exec{}).runs.size(), 80U);
    EXPECT_THAT(text, HasSubstr("widths: 80 runs on"));
}

TEST(KnownExperiments, LiuHasTheSizesOfTheSurveysReplication) {
    std::map<Kernel, std::set<std::int64_t>> sizes;
    for (const auto& p : expand(find_experiment("liu")))
        sizes[p.config.features.kernel].insert(run_sizes(p.config, 13).m);
    EXPECT_EQ(sizes.size(), 3U);
    for (const auto& [kernel, m] : sizes)
        EXPECT_EQ(m, (std::set<std::int64_t>{26, 52, 104, 208, 416})) << to_string(kernel);
}

TEST(KnownExperiments, MeasuredDrawsOnlyRandomSplits) {
    const auto plan = plan_sweep(find_experiment("ridge_measured"), {}, Exec{});
    // Three sets with a separate split for each of ten seeds, three with one split for all.
    EXPECT_EQ(plan.data.size(), 33U);
}

}  // namespace
}  // namespace imka
