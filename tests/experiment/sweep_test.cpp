// The sweep engine: keys, records, resumption, failures, several engines.
#include "imka/experiment/sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "imka/base/file.hpp"
#include "imka/cuda/status.hpp"
#include "imka/experiment/journal.hpp"
#include "support/damage.hpp"
#include "support/error.hpp"
#include "support/paths.hpp"
#include "support/records.hpp"
#include "support/temp_dir.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

// 24 runs of a few milliseconds.
Experiment small_experiment() {
    return parse_experiment(
        "name: small\n"
        "base: {gram_rows: 100, log_ratio: 0}\n"
        "grid:\n"
        "  dataset: [ringnorm, waveform]\n"
        "  kernel: [rbf, arccos0]\n"
        "  sampler: [rff, sorf]\n"
        "  seeds: 0..2\n",
        "small.yaml");
}

SweepSummary sweep(const Experiment& experiment, const std::filesystem::path& output, const Exec& exec = {}) {
    return run_sweep(plan_sweep(experiment, {}, exec), {.output = output}, exec);
}

TEST(SettingsText, RoundTrips) {
    RunConfig config;
    config.features.gamma.value.reset();
    config.features.log_ratio = 2.5;
    config.features.n_components = 12;
    config.seeds = {3, 7};
    config.ridge.alpha = 1e-7;
    const auto texts = settings_text(config);
    EXPECT_EQ(texts.at("gamma"), "scale");
    EXPECT_EQ(texts.at("log_ratio"), "2.5");
    EXPECT_EQ(texts.at("truncation"), "auto");
    EXPECT_EQ(texts.at("seeds"), "3,7");
    EXPECT_EQ(texts.at("dataset"), "ringnorm");
    RunConfig again;
    for (const auto& [name, text] : texts) set_field(fields(again), name, text);
    EXPECT_EQ(config_hash(again), config_hash(config));
}

// Changing this key orphans every existing record: it must be on purpose, with a new kResultRevision or
// schema.
TEST(RunKey, OfAKnownRunDoesNotChange) {
    auto e = parse_experiment("name: a\ngrid: {kernel: [rbf]}\n", "a.yaml");
    const auto plan = plan_sweep(e, {}, Exec{});
    ASSERT_EQ(plan.runs.size(), 1U);
    EXPECT_EQ(plan.runs[0].key, "779165df64fc933a89d377c01889f7628d8e550f4b1f8e20b216d512df9adccf");
    e.name = "b";
    EXPECT_EQ(plan_sweep(e, {}, Exec{}).runs[0].key, plan.runs[0].key) << "the name is not part of the key";
}

TEST(RunKey, DiffersForEverythingThatMatters) {
    const auto base = settings_text(RunConfig{});
    std::set<std::string> keys = {run_key("ridge", base, "x")};
    EXPECT_TRUE(keys.insert(run_key("gram", base, "x")).second);
    EXPECT_TRUE(keys.insert(run_key("ridge", base, "y")).second);
    for (const auto& [name, value] : base) {
        auto changed = base;
        changed[name] = value + "1";
        EXPECT_TRUE(keys.insert(run_key("ridge", changed, "x")).second) << name;
    }
    EXPECT_EQ(run_key("ridge", base, "x"), run_key("ridge", settings_text(RunConfig{}), "x"));
}

// A setting added after records were written.
TEST(RunKey, DoesNotChangeWithANewSetting) {
    RunConfig config;
    config.features.log_ratio = 2.0;
    auto settings = settings_text(config);
    const auto key = run_key("ridge", settings, "x");
    auto defaults = default_settings_text();
    defaults["invented"] = "auto";
    settings["invented"] = "auto";
    EXPECT_EQ(run_key("ridge", settings, "x", defaults), key);
    settings["invented"] = "7";
    EXPECT_NE(run_key("ridge", settings, "x", defaults), key);
}

// Records of the first schema, whose keys were hashes of all settings.
TEST(Record, OfTheFirstSchemaIsUsedByASweep) {
    const TempDir dir;
    std::filesystem::create_directories(dir / "records");
    std::filesystem::copy(std::filesystem::path(source_dir()) / "tests/experiment/fixtures/records_1.jsonl",
                          dir / "records/old.jsonl");
    const auto e = parse_experiment(
        "name: old\n"
        "base: {dataset: ringnorm, gamma: scale, log_ratio: 1, gram_rows: 50, calibration_inputs: 100}\n"
        "grid: {backend: [fp32, hermes], kernel: [rbf, arccos0], seeds: 0..2}\n",
        "old.yaml");
    const auto summary = sweep(e, dir.path());
    EXPECT_EQ(summary.status.before, 4U) << "fp32";
    EXPECT_EQ(summary.recorded, 8U) << "the third seed, and the chip, whose constants have changed since";
    EXPECT_EQ(summary.unusable_lines, 0U);
    const auto set = read_records(dir.path());
    EXPECT_EQ(set.records.size(), 16U);
    EXPECT_TRUE(set.problems.empty());
}

TEST(Sweep, RunsOfKindGramHaveAnErrorAndNoAccuracy) {
    const TempDir dir;
    const auto text = [](const std::string& kind, const std::string& rows) {
        return "name: g\nkind: " + kind + "\nbase: {log_ratio: 1, gram_rows: " + rows +
               "}\ngrid: {backend: [fp32, hermes], seeds: 0..1}\n";
    };
    const auto summary = sweep(parse_experiment(text("gram", "60"), "g.yaml"), dir / "gram");
    EXPECT_EQ(summary.recorded, 4U);
    EXPECT_TRUE(summary.failures.empty());
    sweep(parse_experiment(text("ridge", "60"), "g.yaml"), dir / "ridge");
    std::map<std::string, double> errors;
    for (const auto& r : read_records(dir / "ridge").records)
        errors[r.setting("backend") + r.setting("seeds")] = r.results.at("gram_error");
    for (const auto& r : read_records(dir / "gram").records) {
        EXPECT_EQ(r.kind, "gram");
        EXPECT_FALSE(r.results.contains("accuracy"));
        EXPECT_EQ(r.results.at("gram_error"), errors.at(r.setting("backend") + r.setting("seeds")));
    }
    EXPECT_THAT(error_of([&] { plan_sweep(parse_experiment(text("gram", "0"), "g.yaml"), {}, Exec{}); }),
                HasSubstr("gram_rows: expected at least one row"));
    EXPECT_THAT(error_of([&] { parse_experiment(text("grm", "60"), "g.yaml"); }),
                HasSubstr("'grm' is not a known kind; known: ridge, gram"));
}

TEST(Sweep, GivesTheSameRecordsForAnyThreadsAndLittleMemory) {
    const TempDir dir;
    const auto e = small_experiment();
    const auto one = sweep(e, dir / "1", Exec{.threads = 1});
    EXPECT_EQ(one.status.done, 24U);
    EXPECT_EQ(one.recorded, 24U);
    const auto expected = record_facts(dir / "1");
    ASSERT_EQ(expected.size(), 24U);
    for (const int threads : {2, 7}) {
        sweep(e, dir / std::to_string(threads), Exec{.threads = threads});
        EXPECT_EQ(record_facts(dir / std::to_string(threads)), expected);
    }
    const Exec exec{.threads = 7};
    run_sweep(plan_sweep(e, {}, exec), {.output = dir / "m", .memory_bytes = 1.0}, exec);
    EXPECT_EQ(record_facts(dir / "m"), expected);
    EXPECT_TRUE(std::filesystem::is_empty(dir / "1/claims"));
    EXPECT_EQ(to_yaml(read_experiment(dir / "1/experiment.yaml")), to_yaml(e));
}

// More data sets than a sweep loads ahead, one of which cannot be loaded.
TEST(Sweep, LoadsDataAheadWithoutChangingARecord) {
    const TempDir dir;
    const auto e = parse_experiment(
        "name: ahead\nbase: {gram_rows: 50, log_ratio: 0}\ncases:\n"
        "  - {dataset: ringnorm, split_seed: seed, seeds: 0..8}\n"
        "  - {dataset: letter, seeds: 0..1}\n"
        "  - {dataset: waveform, split_seed: seed, seeds: 0..2}\n",
        "ahead.yaml");
    const auto one = sweep(e, dir / "1", Exec{.threads = 1});
    EXPECT_EQ(one.status.done, 12U);
    EXPECT_EQ(one.status.failed, 2U);
    const auto expected = record_facts(dir / "1");
    ASSERT_EQ(expected.size(), 14U);
    for (const int threads : {2, 5}) {
        const auto several = sweep(e, dir / std::to_string(threads), Exec{.threads = threads});
        EXPECT_EQ(several.recorded, 14U);
        EXPECT_EQ(record_facts(dir / std::to_string(threads)), expected);
    }
}

TEST(Sweep, RecordsAreTheResultsOfSingleRuns) {
    const TempDir dir;
    sweep(small_experiment(), dir.path());
    for (const auto& r : read_records(dir.path()).records) {
        RunConfig config;
        for (const auto& [name, text] : r.config) set_field(fields(config), name, text);
        const auto data = load_dataset(config.dataset, load_options(config, {}), Exec{});
        const auto result = run_seeds("ridge", config, data, Exec{});
        EXPECT_EQ(r.results.at("accuracy"), result.values.at("accuracy").mean);
        EXPECT_EQ(r.results.at("gram_error"), result.values.at("gram_error").mean);
        EXPECT_EQ(r.results.at("m"), static_cast<double>(result.sizes.m));
        EXPECT_EQ(r.results.at("D"), static_cast<double>(result.sizes.features));
        EXPECT_EQ(r.data_sha256, data.source_sha256);
        EXPECT_EQ(r.seed, config.seeds.front());
        EXPECT_FALSE(r.imka_version.empty() || r.build.empty() || r.instruction_set.empty());
        EXPECT_GT(r.wall_seconds, 0.0);
        EXPECT_GT(r.peak_memory_mb, 1.0);
        EXPECT_EQ(r.finished.size(), 20U);
    }
}

TEST(Sweep, RepeatsNothingAndResumesAfterAnIncompleteLine) {
    const TempDir dir;
    const auto e = small_experiment();
    sweep(e, dir.path());
    const auto expected = record_facts(dir.path());
    auto again = sweep(e, dir.path());
    EXPECT_EQ(again.recorded, 0U);
    EXPECT_EQ(again.status.before, 24U);
    EXPECT_EQ(record_files(dir.path()).size(), 1U);

    const auto file = record_files(dir.path())[0];
    const auto text = read_file(file, 1U << 20U);
    write_file_atomic(file, text.substr(0, text.size() - 40));
    again = sweep(e, dir.path());
    EXPECT_EQ(again.recorded, 1U);
    EXPECT_EQ(read_file(file, 1U << 20U).size(), text.size() - 40)
        << "the file of a dead process must not change";
    const auto set = read_records(dir.path());
    ASSERT_EQ(set.problems.size(), 1U);
    EXPECT_EQ(set.problems[0].kind, RecordProblem::Kind::torn);
    EXPECT_EQ(record_facts(dir.path()), expected);
}

TEST(Sweep, LinesOfAnotherSchemaAndInvalidLinesAreKeptButNotUsed) {
    const TempDir dir;
    const auto e = small_experiment();
    sweep(e, dir.path());
    const auto expected = record_facts(dir.path());
    const auto file = record_files(dir.path())[0];
    auto text = read_file(file, 1U << 20U);
    const std::string schema(kRecordSchema);
    text.replace(text.find(schema), schema.size(), "imka-record-0");
    text += "rubbish\n";
    write_file_atomic(file, text);
    const auto again = sweep(e, dir.path());
    EXPECT_EQ(again.recorded, 1U);
    EXPECT_EQ(again.unusable_lines, 2U);
    EXPECT_EQ(record_facts(dir.path()), expected);
    EXPECT_EQ(read_file(file, 1U << 20U), text);
}

TEST(Sweep, FailedRunsAreRecordedAndRetriedWhileOthersFinish) {
    const TempDir dir;
    // 7 is not a multiple of 2; the files of letter are missing.
    const auto e = parse_experiment(
        "name: mixed\nbase: {gram_rows: 50}\ncases:\n"
        "  - {n_components: 7, kernel: rbf}\n"
        "  - {n_components: 7, kernel: arccos0}\n"
        "  - {n_components: 8, dataset: letter}\n",
        "mixed.yaml");
    const auto plan = plan_sweep(e, dir.path(), Exec{});
    const SweepConfig config{.output = dir / "out", .data_dir = dir.path()};
    auto summary = run_sweep(plan, config, Exec{});
    EXPECT_EQ(summary.status.done, 1U);
    EXPECT_EQ(summary.status.failed, 2U);
    ASSERT_EQ(summary.failures.size(), 2U);
    std::set<std::string> errors;
    for (const auto& r : read_records(dir / "out").records) {
        EXPECT_EQ(r.ok(), !r.results.empty());
        if (!r.ok()) errors.insert(r.error);
    }
    ASSERT_EQ(errors.size(), 2U);
    EXPECT_THAT(*errors.begin() + *errors.rbegin(), HasSubstr("imka data fetch letter"));
    EXPECT_THAT(*errors.begin() + *errors.rbegin(), HasSubstr("not a multiple of 2"));

    summary = run_sweep(plan, config, Exec{});
    EXPECT_EQ(summary.status.before, 1U);
    EXPECT_EQ(summary.recorded, 2U) << "retried";
    EXPECT_EQ(read_records(dir / "out").records.size(), 3U);
    auto keep = config;
    keep.retry_failed = false;
    summary = run_sweep(plan, keep, Exec{});
    EXPECT_EQ(summary.recorded, 0U);
    EXPECT_EQ(summary.status.failed, 2U);
}

TEST(Sweep, AChangedFileIsANewRunAndTheOldRecordStays) {
    const TempDir dir;
    const auto write_rows = [&](int shift) {
        std::string text;
        for (int i = 0; i < 200; ++i) {
            text += std::to_string((i * 7 + shift) % 23) + "," + std::to_string(i % 17) + "," +
                    (i % 17 > 8 ? "yes" : "no") + "\n";
        }
        write_file_atomic(dir / "x.csv", text);
    };
    const auto e = parse_experiment("name: own\nbase: {n_components: 16}\ngrid: {dataset: [" +
                                        (dir / "x.csv").string() + "], seeds: 0..1}\n",
                                    "own.yaml");
    write_rows(0);
    EXPECT_EQ(sweep(e, dir / "out").recorded, 2U);
    const auto before = record_facts(dir / "out");
    write_rows(1);
    EXPECT_EQ(sweep(e, dir / "out").recorded, 2U);
    const auto after = record_facts(dir / "out");
    EXPECT_EQ(after.size(), 4U);
    for (const auto& [key, facts] : before) EXPECT_EQ(after.at(key), facts);
    write_rows(0);
    EXPECT_EQ(sweep(e, dir / "out").recorded, 0U);

    const auto plan = plan_sweep(e, {}, Exec{});
    write_rows(2);
    const auto summary = run_sweep(plan, {.output = dir / "late"}, Exec{});
    EXPECT_EQ(summary.status.failed, 2U);
    EXPECT_THAT(summary.failures.at(0).error, HasSubstr("changed during the sweep"));
}

TEST(Sweep, SeveralSweepsShareTheRunsAndRepeatNone) {
    const TempDir dir;
    auto e = small_experiment();
    override_setting(e, "seeds", "0..9");
    sweep(e, dir / "alone");
    const auto plan = plan_sweep(e, {}, Exec{});
    std::atomic<std::uint64_t> recorded{0};
    {
        std::vector<std::jthread> engines;
        for (int i = 0; i < 3; ++i) {
            engines.emplace_back([&, i] {
                recorded +=
                    run_sweep(plan, {.output = dir / "shared", .wait = i == 0}, Exec{.threads = 2}).recorded;
            });
        }
    }
    EXPECT_EQ(recorded, plan.runs.size());
    EXPECT_EQ(record_lines(dir / "shared"), plan.runs.size());
    EXPECT_EQ(record_facts(dir / "shared"), record_facts(dir / "alone"));
    EXPECT_TRUE(std::filesystem::is_empty(dir / "shared/claims"));
}

TEST(Sweep, WaitsForRunsOfOtherProcessesOnlyOnRequest) {
    const TempDir dir;
    const auto e = small_experiment();
    const auto plan = plan_sweep(e, {}, Exec{});
    std::filesystem::create_directories(dir / "claims");
    auto claim = Claim::try_take(dir / "claims", plan.runs[5].key);
    ASSERT_TRUE(claim);
    const auto quick = run_sweep(plan, {.output = dir.path(), .wait = false}, Exec{});
    EXPECT_EQ(quick.recorded, 23U);
    EXPECT_EQ(quick.status.elsewhere, 1U);
    // The holder dies while a sweep waits for it.
    SweepConfig config{.output = dir.path()};
    config.on_status = [&](const SweepStatus& s) {
        if (s.elsewhere == 1) claim.reset();
    };
    const auto patient = run_sweep(plan, config, Exec{});
    EXPECT_EQ(patient.recorded, 1U);
    EXPECT_EQ(patient.status.before + patient.status.done, 24U);
}

TEST(Sweep, StoppedInTheMiddleKeepsItsRecordsAndResumes) {
    const TempDir dir;
    auto e = small_experiment();
    override_setting(e, "log_ratio", "3");
    override_setting(e, "seeds", "0..9");
    const auto plan = plan_sweep(e, {}, Exec{});
    std::atomic<bool> cancel{false};
    SweepConfig config{.output = dir / "out"};
    config.on_status = [&](const SweepStatus& s) {
        if (s.done >= 1) cancel = true;
    };
    EXPECT_EQ(error_of([&] { (void)run_sweep(plan, config, Exec{.threads = 2, .cancel = &cancel}); }),
              "interrupted: interrupted");
    const auto lines = record_lines(dir / "out");
    EXPECT_GE(lines, 1U);
    EXPECT_LT(lines, plan.runs.size());
    EXPECT_TRUE(std::filesystem::is_empty(dir / "out/claims"));
    const auto rest = run_sweep(plan, {.output = dir / "out"}, Exec{});
    EXPECT_EQ(rest.status.before, lines);
    EXPECT_EQ(rest.recorded, plan.runs.size() - lines);
}

// The GPU is lost in the tenth run, and no later one can use it.
std::atomic<int> runs_before_loss;
SeedResult run_until_loss(const RunConfig& config, std::uint64_t seed, RunData& data, const Exec& exec) {
    if (runs_before_loss-- <= 0) throw cuda::DeviceLost("cuda:0 is lost");
    return run_kind("ridge").run(config, seed, data, exec);
}

TEST(Sweep, StopsWhenItsGpuIsLostAndTheNextStartGoesOn) {
    const TempDir dir;
    const auto e = small_experiment();
    sweep(e, dir / "undisturbed");
    const auto plan = plan_sweep(e, {}, Exec{});
    auto kind = run_kind("ridge");
    kind.run = run_until_loss;
    for (const int threads : {1, 3}) {
        const auto out = dir / std::to_string(threads);
        runs_before_loss = 9;
        EXPECT_EQ(error_of([&] { (void)run_sweep(plan, kind, {.output = out}, Exec{.threads = threads}); }),
                  "missing_part: cuda:0 is lost. 9 of 24 runs are done and kept");
        EXPECT_EQ(record_lines(out), 9U) << "no failure is recorded";
        EXPECT_TRUE(std::filesystem::is_empty(out / "claims"));
        const auto rest = sweep(e, out);
        EXPECT_EQ(rest.status.before, 9U);
        EXPECT_EQ(rest.recorded, 15U);
        EXPECT_EQ(record_facts(out), record_facts(dir / "undisturbed"));
    }
}

TEST(Forecast, CountsFinishedRunsAndUsesTheirTimes) {
    const TempDir dir;
    const auto e = small_experiment();
    const auto plan = plan_sweep(e, {}, Exec{});
    const SweepConfig config{.output = dir.path()};
    const auto before = forecast_sweep(plan, config, Exec{});
    EXPECT_EQ(before.to_do, 24U);
    EXPECT_FALSE(before.from_records);
    EXPECT_GT(before.seconds, 0.0);
    EXPECT_GT(before.disk_bytes, 24.0 * 500.0);
    auto part = e;
    override_setting(part, "dataset", "ringnorm");
    sweep(part, dir.path());
    const auto after = forecast_sweep(plan, config, Exec{});
    EXPECT_EQ(after.done, 12U);
    EXPECT_EQ(after.to_do, 12U);
    EXPECT_TRUE(after.from_records);
}

TEST(Cost, GrowsWithEveryQuantity) {
    RunConfig config;
    config.features.n_components = 512;
    const DatasetFacts facts{
        .source_sha256 = {}, .features = 20, .train_rows = 10000, .test_rows = 10000, .classes = 2};
    const auto base = ridge_cost(config, facts);
    auto more = facts;
    more.train_rows *= 2;
    EXPECT_GT(ridge_cost(config, more).seconds, base.seconds);
    more = facts;
    more.test_rows *= 2;
    EXPECT_GT(ridge_cost(config, more).seconds, base.seconds);
    more = facts;
    more.classes = 26;
    EXPECT_GT(ridge_cost(config, more).bytes, base.bytes);
    config.features.n_components = 1024;
    EXPECT_GT(ridge_cost(config, facts).seconds, base.seconds);
    // 8 lanes of sums and a copy of 1026 x 1026 doubles.
    EXPECT_GT(ridge_cost(config, facts).bytes, 9.0 * 1026 * 1026 * 8);
    config.features.n_components = 1023;
    EXPECT_EQ(ridge_cost(config, facts).seconds, 0.0) << "fails immediately";
    config.features.n_components = 512;
    EXPECT_LT(gram_cost(config, facts).seconds, base.seconds);
    EXPECT_GT(gram_cost(config, facts).seconds, 0.0);
}

TEST(RecordIndex, ReadsNewLinesOnceTheyAreComplete) {
    const TempDir dir;
    RecordIndex index(dir.path());
    Record record{.key = "a", .kind = "ridge", .results = {{"accuracy", 0.5}}, .wall_seconds = 2.0};
    const auto line = to_json_line(record) + "\n";
    std::ofstream out(dir / "x.jsonl", std::ios::binary);
    out << line.substr(0, 50) << std::flush;
    index.refresh();
    EXPECT_EQ(index.find("a").state, RecordIndex::State::none);
    out << line.substr(50) << std::flush;
    index.refresh();
    EXPECT_EQ(index.find("a").state, RecordIndex::State::done);
    EXPECT_EQ(index.find("a").wall_seconds, 2.0);
    record.key = "b";
    record.error = "no";
    out << to_json_line(record) << "\n" << to_json_line(record) << "\n" << std::flush;
    index.refresh();
    EXPECT_EQ(index.find("b").state, RecordIndex::State::failed);
    EXPECT_EQ(index.find("b").failures, 2);
    EXPECT_EQ(index.unusable_lines(), 0U);
}

TEST(RecordWriter, RoundTripsLines) {
    const TempDir dir;
    const Record record{.key = "a", .experiment = "e", .kind = "ridge", .seed = 3, .error = "bad \xff byte"};
    RecordWriter writer(dir.path());
    EXPECT_FALSE(std::filesystem::exists(writer.path())) << "no empty files";
    writer.sync();
    EXPECT_FALSE(std::filesystem::exists(writer.path()));
    writer.append(record);
    writer.append(record);
    writer.sync();
    const auto set = read_records(dir.path());
    ASSERT_EQ(set.records.size(), 1U);
    EXPECT_EQ(set.records[0].seed, 3U);
    EXPECT_TRUE(set.problems.empty());
    RecordWriter other(dir.path());
    EXPECT_NE(other.path(), writer.path());
    RecordWriter nowhere(dir / "none");
    EXPECT_THAT(error_of([&] { nowhere.append(record); }), HasSubstr("cannot be written"));
}

// A line with one changed byte is unusable, or gives the same record.
TEST(Record, DamageOfALineIsFound) {
    const TempDir dir;
    Record record{.key = "abc", .experiment = "e", .kind = "ridge", .seed = 7, .error = {}};
    record.config = {{"kernel", "rbf"}, {"gamma", "0.05"}};
    record.results = {{"accuracy", 0.9712345}, {"gram_error", 0.25}};
    record.finished = "2026-01-31T12:00:00Z";
    write_file_atomic(dir / "a.jsonl", to_json_line(record) + "\n");
    EXPECT_EQ(read_records(dir / "a.jsonl").records.at(0).results, record.results);
    expect_damage_is_found(dir / "a.jsonl", [](const std::filesystem::path& path) {
        const auto set = read_records(path);
        if (!set.problems.empty()) fail(ErrorCode::bad_data, set.problems[0].what);
        return to_json_line(set.records.at(0));
    });
}

TEST(Record, LinesWithoutAChecksumAreStillUsed) {
    Record record{.key = "abc", .experiment = "e", .kind = "ridge", .seed = 7, .error = {}};
    const auto line = to_json_line(record);
    auto old = line.substr(0, line.find(",\"check\"")) + "}";
    EXPECT_TRUE(parse_record(old).record.has_value());
    EXPECT_TRUE(parse_record(line + "\r").record.has_value());
    EXPECT_EQ(parse_record(old.substr(0, old.size() - 1) + ",\"chexk\":\"1\"}").what, "unexpected key");
    const auto edited = std::string(line).replace(line.find("abc"), 3, "abd");
    EXPECT_EQ(parse_record(edited).what, "checksum mismatch: the line is damaged or was edited");
    // Messages do not show the name of the JSON library.
    EXPECT_EQ(parse_record(R"({"schema":"imka-record-2"})").what.find("json.exception"), std::string::npos);
    for (const auto* seed : {"-1", "1.5", "-1.5e300", "\"1\""}) {
        auto other = old;
        const auto begin = other.find("\"seed\":") + 7;
        other.replace(begin, other.find(',', begin) - begin, seed);
        EXPECT_EQ(parse_record(other).what, "the seed is not an integer >= 0") << other;
    }
}

}  // namespace
}  // namespace imka
