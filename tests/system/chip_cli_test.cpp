// imka chip from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "imka/base/random.hpp"
#include "imka/io/npy.hpp"
#include "support/command.hpp"
#include "support/temp_dir.hpp"

namespace {

using nlohmann::json;
using testing::HasSubstr;

// Small and quick: 24 x 10 on one core.
const std::string kSmall = " --rows 24 --cols 10 --inputs 100 --calibration-inputs 200";

json run_json(const std::string& arguments) {
    const auto r = run_imka("chip " + arguments + " --json");
    EXPECT_EQ(r.exit_code, 0) << arguments << "\n" << r.err;
    EXPECT_EQ(r.err, "");
    return json::parse(r.out);
}

void expect_chip_fails(const std::string& arguments, int exit_code, const std::string& message) {
    expect_fails("chip " + arguments, exit_code, message);
}

bool has_gnuplot() {
    return std::system("gnuplot --version > /dev/null 2>&1") == 0;
}

double error_of_state(const json& j, const std::string& state) {
    for (const auto& s : j.at("states")) {
        if (s.at("state") == state) return s.at("relative_error").at("mean");
    }
    ADD_FAILURE() << "no state " << state;
    return 0.0;
}

TEST(ChipCli, EveryVerbHasHelpWithExamples) {
    for (const std::string verb : {"info", "mvm", "program", "age", "explain", "fit", "signatures"}) {
        const auto r = run_imka("chip " + verb + " --help");
        EXPECT_EQ(r.exit_code, 0) << verb;
        EXPECT_THAT(r.out, HasSubstr("Examples:\n  imka chip " + verb)) << verb;
        EXPECT_THAT(r.out, HasSubstr("--json")) << verb;
    }
    EXPECT_THAT(run_imka("completion bash").out, HasSubstr("'imka chip explain') words="));
}

TEST(ChipCli, InfoListsChipsAndShowsEveryConstantWithItsSource) {
    const auto list = run_json("info");
    EXPECT_EQ(list.at("chips").at(1).at("name"), "hermes");
    const auto hermes = run_json("info hermes");
    EXPECT_EQ(hermes.at("weights"), 64 * 65536);
    EXPECT_EQ(hermes.at("devices"), 64 * 65536 * 4);
    // 16.1 TOPS and 2.48 TOPS/W are published for four phases.
    EXPECT_NEAR(hermes.at("tops"), 16.1, 0.05);
    EXPECT_NEAR(hermes.at("tops_per_watt"), 2.48, 0.01);
    bool found = false;
    for (const auto& c : hermes.at("constants")) {
        if (c.at("name") != "device.g_max") continue;
        found = true;
        EXPECT_EQ(c.at("unit"), "uS");
        EXPECT_THAT(c.at("source").get<std::string>(), HasSubstr("aihwkit"));
    }
    EXPECT_TRUE(found);
    EXPECT_NE(run_json("info hermes --set core.adc_noise=2").at("hash"), hermes.at("hash"));
    EXPECT_THAT(run_imka("chip info hermes").out, HasSubstr("Sources"));
}

TEST(ChipCli, MvmShowsEveryStateInOrder) {
    const auto j = run_json("mvm --seeds 0..2 --time 30d --compensation global" + kSmall);
    std::vector<std::string> names;
    for (const auto& s : j.at("states")) names.push_back(s.at("state"));
    EXPECT_THAT(names, testing::ElementsAre("ideal", "mapped", "calibrated", "programmed", "programmed+",
                                            "aged", "compensated"));
    EXPECT_LT(error_of_state(j, "ideal"), 1e-6);
    // Gaussian inputs with range 1: 31.7 % lie beyond one standard deviation and are clipped; calibration
    // fixes that.
    EXPECT_NEAR(j.at("states").at(1).at("clipped_inputs").at("mean"), 0.317, 0.03);
    EXPECT_LT(j.at("states").at(2).at("clipped_inputs").at("mean"), 0.001);
    EXPECT_LT(error_of_state(j, "calibrated"), error_of_state(j, "mapped"));
    EXPECT_LT(error_of_state(j, "calibrated"), error_of_state(j, "programmed"));
    EXPECT_GT(error_of_state(j, "aged"), error_of_state(j, "programmed+"));
    EXPECT_LT(error_of_state(j, "compensated"), error_of_state(j, "aged"));
    const auto& last = j.at("states").at(6);
    EXPECT_NEAR(std::hypot(last.at("linear").at("values").at(0).get<double>(),
                           last.at("residual").at("values").at(0).get<double>()),
                last.at("relative_error").at("values").at(0).get<double>(), 1e-9);
}

TEST(ChipCli, MvmIsTheSameForAnyThreadsAndNearTheLiteralSimulator) {
    const std::string what = "chip mvm --seeds 0..3 --json" + kSmall;
    const auto one = run_imka(what + " --threads 1");
    EXPECT_EQ(one.out, run_imka(what + " --threads 3").out);
    const auto fast = error_of_state(json::parse(one.out), "programmed+");
    const auto literal =
        error_of_state(json::parse(run_imka(what + " --simulator literal").out), "programmed+");
    // The same devices; only noise that is new in every product differs.
    EXPECT_NEAR(literal, fast, 0.05 * fast);
    EXPECT_NE(literal, fast);
}

TEST(ChipCli, MvmTakesMatricesFromFilesAndSeveralCores) {
    const TempDir dir;
    imka::Matrix<float> w(300, 5);
    imka::Matrix<float> x(60, 300);
    imka::fill_normal(1, imka::Stream::test, 0, w.values());
    imka::fill_normal(2, imka::Stream::test, 0, x.values());
    imka::write_npy(dir / "w.npy", w.view());
    imka::write_npy(dir / "x.npy", x.view());
    const auto files = " --weights " + (dir / "w.npy").string() + " --input-law " + (dir / "x.npy").string();
    const auto j = run_json("mvm --seed 3" + files);
    EXPECT_EQ(j.at("rows"), 300);
    EXPECT_EQ(j.at("inputs"), 30);
    EXPECT_TRUE(j.at("states").at(3).at("linear").is_null()) << "30 products do not determine 300 weights";
    EXPECT_LT(error_of_state(j, "programmed+"), 0.6);
    imka::Matrix<float> narrow(60, 299);
    imka::write_npy(dir / "n.npy", narrow.view());
    expect_chip_fails(
        "mvm --weights " + (dir / "w.npy").string() + " --input-law " + (dir / "n.npy").string(), 3,
        "inputs of length 299; the matrix has 300 inputs");
}

TEST(ChipCli, CopiesOfTheMatrixReduceNoise) {
    const auto one = run_json("mvm --seeds 0..2" + kSmall);
    const auto four = run_json("mvm --seeds 0..2 --replicas 4 --replication average" + kSmall);
    // Device errors are independent: half remains, plus the converter errors.
    EXPECT_LT(error_of_state(four, "programmed+"), 0.7 * error_of_state(one, "programmed+"));
}

TEST(ChipCli, ExplainListsTheCausesWithTheirShares) {
    const auto j = run_json("explain --chip hermes-published --seeds 0..2 --time 1h" + kSmall);
    std::vector<std::string> names;
    for (const auto& n : j.at("nonidealities")) names.push_back(n.at("name"));
    EXPECT_THAT(names, testing::Contains("programming_error"));
    EXPECT_THAT(names, testing::Contains("drift"));
    EXPECT_THAT(j.at("absent").get<std::vector<std::string>>(), testing::Contains("ir_drop"));
    EXPECT_EQ(names.at(0), "programming_error");
    EXPECT_GT(j.at("nonidealities").at(0).at("saved_share").at("mean"), 0.3);
    EXPECT_LT(j.at("error_without_all").at("mean"), 1e-3);
    // A non-ideality that is switched on is included.
    const auto wires = run_json("explain --seed 0 --set core.ir_drop=1" + kSmall);
    names.clear();
    for (const auto& n : wires.at("nonidealities")) names.push_back(n.at("name"));
    EXPECT_THAT(names, testing::Contains("ir_drop"));
}

TEST(ChipCli, ExplainSupportsTheGramErrorOfADataSet) {
    const auto j = run_json(
        "explain --dataset ringnorm --kernel arccos0 --log-ratio 4 --gram-rows 100 --seeds 0..1 "
        "--calibration-inputs 200");
    EXPECT_EQ(j.at("error"), "Gram error");
    // Without the chip's errors, the error of the features remains.
    const auto digital = json::parse(
        run_imka("gram --dataset ringnorm --kernel arccos0 --log-ratio 4 --gram-rows 100 --truncation 3 "
                 "--seeds 0..1 --json")
            .out);
    EXPECT_NEAR(j.at("error_without_all").at("mean"), digital.at("gram_error").at("mean"), 1e-4);
    EXPECT_GT(j.at("full_error").at("mean"), j.at("error_without_all").at("mean"));
}

TEST(ChipCli, ExplainAnalysesTheChipOfTheRun) {
    const std::string run =
        " --dataset ringnorm --kernel rbf --log-ratio 3 --gram-rows 60 --seed 3 --at 1h "
        "--compensation global --calibration-inputs 200 --chip-seed 5 ";
    for (const std::string chip :
         {"--output-calibration nominal", "--input-alpha 2 --chip-set core.adc_noise=3",
          "--chip-set device.programming_scale=2 --replicas 2 --replication average"}) {
        const auto j = run_json("explain --backend hermes" + run + chip);
        const auto gram = run_imka("gram --backend hermes --json" + run + chip);
        EXPECT_EQ(gram.exit_code, 0) << gram.err;
        // The same devices, calibration, time and noise.
        EXPECT_EQ(j.at("full_error").at("mean"), json::parse(gram.out).at("gram_error").at("mean")) << chip;
    }
    expect_chip_fails("explain --chip-seed 5", 2, "chip_seed needs a data set");
}

TEST(ChipCli, ExplainTruncatesOnlyGaussianDirections) {
    const auto j = run_json(
        "explain --dataset ringnorm --kernel laplace --sampler rff --log-ratio 2 --gram-rows 50 --seed 0 "
        "--calibration-inputs 100");
    EXPECT_GT(j.at("full_error").at("mean"), j.at("error_without_all").at("mean"));
}

TEST(ChipCli, EarlierSpellingsOfOptionsStillWork) {
    const auto now =
        run_imka("chip mvm --backend hermes-od --chip-set core.adc_noise=2 --at 1h --seed 1 --json" + kSmall);
    EXPECT_EQ(now.exit_code, 0) << now.err;
    EXPECT_EQ(
        now.out,
        run_imka("chip mvm --chip hermes-od --set core.adc_noise=2 --time 1h --seed 1 --json" + kSmall).out);
    EXPECT_EQ(run_json("mvm --read-seconds 3600 --seed 1" + kSmall).at("seconds"), 3600.0);
    for (const std::string verb : {"mvm --at 1h --seed 1", "age --times 1h --seed 1", "explain --seed 1"}) {
        const auto spaced = run_json(verb + " --read-spacing 1min" + kSmall);
        EXPECT_EQ(spaced, run_json(verb + " --spacing 60" + kSmall));
        EXPECT_NE(spaced, run_json(verb + kSmall)) << "the spacing matters";
    }
}

TEST(ChipCli, ConstantsAreSeparatedByCommasOrByRepeatingTheOption) {
    const auto hash = [](const std::string& options) {
        return run_json("info hermes " + options).at("hash").get<std::string>();
    };
    const auto both = hash("--chip-set core.adc_noise=2,core.gain_sd=0");
    EXPECT_EQ(hash("--chip-set core.adc_noise=2 --chip-set core.gain_sd=0"), both);
    EXPECT_EQ(hash("--set core.gain_sd=0 --chip-set core.adc_noise=2"), both);
    EXPECT_NE(hash("--chip-set core.adc_noise=2"), both);
    // Checked together: the floor alone would be above the ceiling.
    run_json("info ideal --chip-set device.g_floor=50 --chip-set device.g_ceiling=60");
    expect_chip_fails("info hermes --chip-set core.adc_noise=2,3", 2,
                      "--chip-set: constant '3': expected KEY=VALUE");
}

TEST(ChipCli, AgeShowsTheEffectOfCompensation) {
    const auto j = run_json("age --times 1h,30d --seeds 0..2" + kSmall);
    ASSERT_EQ(j.at("times").size(), 2U);
    const auto& late = j.at("times").at(1);
    EXPECT_EQ(late.at("seconds"), 30 * 86400.0);
    EXPECT_GT(late.at("none").at("mean"), j.at("times").at(0).at("none").at("mean"));
    for (const auto* kind : {"global", "column", "outputs"})
        EXPECT_LT(late.at(kind).at("mean"), late.at("none").at("mean")) << kind;
}

TEST(ChipCli, ProgramComparesMethodsAndSavesAChip) {
    const TempDir dir;
    const auto file = (dir / "chip.imka").string();
    const auto j =
        run_json("program --methods max_set_fill,gradient_descent --draws 3 --output " + file + kSmall);
    EXPECT_EQ(j.at("methods").size(), 2U);
    EXPECT_GT(j.at("gradient_gain").at("mean"), 0.1);
    EXPECT_GT(j.at("methods").at(1).at("steps").size(), 5U);
    EXPECT_GT(j.at("methods").at(0).at("cost").at("pulses"), 480.0);
    const auto loaded =
        run_json("mvm --load " + file + " --seeds 0..1 --inputs 100 --time 1d --compensation global");
    EXPECT_EQ(loaded.at("rows"), 24);
    EXPECT_LT(error_of_state(loaded, "programmed"), error_of_state(loaded, "aged"));
    EXPECT_EQ(run_json("age --load " + file + " --times 1h --inputs 100 --seed 1").at("cols"), 10);
    expect_chip_fails("mvm --load " + file + " --rows 5", 2, "--rows");
    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
    expect_chip_fails("mvm --load " + file, 3, file);
}

TEST(ChipCli, ProgrammingByPulsesNeedsAPulseModel) {
    expect_chip_fails("program --chip pcm-like --methods verify" + kSmall, 2, "pulses");
    EXPECT_EQ(run_json("program --chip pcm-like" + kSmall).at("methods").size(), 1U);
}

// Pairs whose error is 0.3 + u uS, targets from 2 to 20 uS.
std::string pairs() {
    std::string text = "target,read\n";
    for (std::uint64_t i = 0; i < 600; ++i) {
        const double target = 2.0 + 0.03 * static_cast<double>(i);
        const double z = imka::normal(1, imka::Stream::test, i);
        text += std::to_string(target) + "," + std::to_string(target + (0.3 + target / 20.0) * z) + "\n";
    }
    return text;
}

TEST(ChipCli, FitWritesAChipThatOtherCommandsRead) {
    const TempDir dir;
    const auto csv = (dir / "pairs.csv").string();
    const auto yaml = (dir / "mine.yaml").string();
    write_text(csv, pairs());
    const auto j = run_json("fit " + csv + " --degree 1 --g-max 20 --output " + yaml);
    const auto& c = j.at("sigma_us");
    EXPECT_NEAR(c.at(0).at("value"), 0.3, 5 * c.at(0).at("error").get<double>());
    EXPECT_NEAR(c.at(1).at("value"), 1.0, 5 * c.at(1).at("error").get<double>());
    EXPECT_LT(c.at(1).at("error"), 0.15);
    const auto info = run_json("info " + yaml);
    EXPECT_EQ(info.at("name"), "mine");
    for (const auto& constant : info.at("constants")) {
        if (constant.at("name") == "device.programming_error") {
            EXPECT_THAT(constant.at("source").get<std::string>(), HasSubstr("pairs.csv"));
        }
    }
    EXPECT_GT(error_of_state(run_json("mvm --seed 0 --chip " + yaml + kSmall), "programmed"), 0.01);
    EXPECT_THAT(run_imka("chip fit " + csv).out, HasSubstr("fitted curve"));
}

TEST(ChipCli, BadMeasurementsAreErrorsAndKeepFiles) {
    const TempDir dir;
    const auto csv = (dir / "p.csv").string();
    const auto yaml = (dir / "p.yaml").string();
    write_text(yaml, "kept");
    const auto fails = [&](const std::string& text, const std::string& message) {
        write_text(csv, text);
        expect_chip_fails("fit " + csv + " --output " + yaml, 3, message);
    };
    fails("target,read\n1,nan\n", "p.csv: line 2");
    fails("1\n2\n3\n", "1 column; expected target and read in uS");
    fails("target,read\n1,1.1\n2,2.2\n", "2 reads at the first time; a curve of degree 3 needs 50");
    fails(pairs() + "5.0", "p.csv: line 602");
    fails("target,speed\n1,2\n", "column 'speed'; known: target, read, time, device");
    fails("", "p.csv");
    expect_chip_fails("fit " + (dir / "none.csv").string(), 2, "none.csv");
    std::ifstream in(yaml);
    std::string kept;
    in >> kept;
    EXPECT_EQ(kept, "kept");
}

TEST(ChipCli, FiguresHaveTheFormatOfTheirExtension) {
    if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
    const TempDir dir;
    const auto begins = [&](const std::string& name) {
        std::ifstream in(dir / name, std::ios::binary);
        std::string head(4, '\0');
        in.read(head.data(), 4);
        return head;
    };
    const auto figure = [&](const std::string& arguments, const std::string& name) {
        const auto r = run_imka("chip " + arguments + " --figure " + (dir / name).string() + kSmall);
        EXPECT_EQ(r.exit_code, 0) << r.err;
        EXPECT_THAT(r.out, HasSubstr(name));
    };
    figure("age --times 1h,1d --seed 0", "a.svg");
    EXPECT_EQ(begins("a.svg"), "<?xm");
    figure("explain --seed 0", "b.png");
    EXPECT_EQ(begins("b.png"), "\x89PNG");
    figure("program --methods gradient_descent", "c.pdf");
    EXPECT_EQ(begins("c.pdf"), "%PDF");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 3)
        << "no other files remain";
    expect_chip_fails("age --figure a.gif", 2, "must end in .svg, .pdf or .png");
}

TEST(ChipCli, BadUsageSaysWhatIsExpected) {
    expect_chip_fails("", 2, "subcommand");
    expect_chip_fails("info hermis", 2, "'hermis' is not a known chip; known: ideal, hermes");
    expect_chip_fails("info --set core.adc_noise=2", 2, "--chip-set needs a chip, as in");
    expect_chip_fails("mvm --chip none.yaml", 3, "none.yaml");
    expect_chip_fails("mvm --chip-set core.adc_noise", 2, "expected KEY=VALUE");
    expect_chip_fails("mvm --set core.adc_noize=1", 2, "core.adc_noize");
    expect_chip_fails("mvm --set core.adc_noise=-1", 2, "core.adc_noise");
    expect_chip_fails("mvm --weights gaus", 2, "neither a file nor a law of weights; known: gauss, uniform");
    expect_chip_fails("mvm --time 3weeks", 2, "expected, for example, 90, 30min, 1h, 7d or 1y");
    expect_chip_fails("mvm --compensation magic", 2, "'magic' is not a known compensation");
    expect_chip_fails("mvm --rows 0", 2, "--rows");
    expect_chip_fails("mvm --rows 5000 --cols 5000", 2, "cores of 256 x 256; 64 available");
    expect_chip_fails("age --times 1d,1h", 2, "--times 1h: times must be greater than 0 and increasing");
    expect_chip_fails("explain --kernel rbx", 2, "'rbx' is not a known kernel");
    expect_chip_fails("program --methods luck", 2, "'luck' is not a known programming method");
}

// Results of a small experiment, as if measured; then a fit with its posterior, and predictions from it.
TEST(ChipCli, ComparesFitsAndSamplesAChip) {
    const TempDir dir;
    const auto path = [&](const std::string& name) { return "'" + (dir / name).string() + "'"; };
    write_text(dir / "e.yaml",
               "name: e\nbase: {dataset: twonorm, backend: hermes, gamma: 0.05, gram_rows: 60}\n"
               "grid:\n  kernel: [rbf, arccos0]\n  log_ratio: [1, 4]\n  seeds: 0..1\n");
    std::string csv = "dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,metric,value\n";
    for (const std::string kernel : {"rbf", "arccos0"}) {
        for (const int r : {1, 4}) {
            for (const int seed : {0, 1}) {
                const auto row = [&](const std::string& metric, double value) {
                    csv += "twonorm," + kernel + ",orf," + std::to_string(r) + ",0," +
                           std::to_string(20 << r) + "," + std::to_string(seed) + ",hermes," + metric + "," +
                           std::to_string(value) + "\n";
                };
                row("err", 0.1 + 0.01 * seed);
                row("acc", 0.95 + 0.01 * seed);
            }
        }
    }
    write_text(dir / "m.csv", csv);
    const auto common =
        " --quiet --measured " + path("m.csv") + " --experiment " + path("e.yaml") + " --test-rows 200";
    const auto signatures = run_json("signatures" + common + " --candidate 'limit: core.product_limit=1' " +
                                     "--candidate 'noise: core.adc_noise=9,core.gain_sd=0.1'");
    ASSERT_EQ(signatures.size(), 3U);
    EXPECT_TRUE(signatures[0].at("candidate").is_null());
    EXPECT_EQ(signatures[2].at("candidate"), "noise");
    EXPECT_NE(signatures[1].at("cells")[0].at("gram_error").at("emulated"),
              signatures[0].at("cells")[0].at("gram_error").at("emulated"));
    EXPECT_THAT(run_imka("chip signatures" + common + " --candidate 'limit: core.product_limit=1'").out,
                HasSubstr("twonorm   arccos0  orf"));
    expect_chip_fails("signatures" + common + " --candidate limit", 2, "expected NAME: KEY=VALUE");
    expect_chip_fails("signatures" + common + " --candidate 'a: core.product_limi=1'", 2,
                      "core.product_limi");

    const auto run =
        run_imka("chip fit --json" + common +
                 " --free core.output_headroom=0.3..3/0.3 --iterations 1 --posterior 3 --resume " +
                 path("kept.jsonl") + " --output " + path("mine.yaml"));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const auto fit = json::parse(run.out);
    EXPECT_EQ(fit.at("posterior").at("draws").at("core.output_headroom").size(), 3U);
    EXPECT_GE(fit.at("posterior").at("coverage").get<double>(), 0.0);
    EXPECT_TRUE(std::filesystem::exists(dir / "kept.jsonl"));
    const auto gram = run_imka(
        "gram --dataset twonorm --gram-rows 60 --seeds 0..1 --json --quiet --chip-draws 3 "
        "--backend " +
        path("mine.yaml"));
    ASSERT_EQ(gram.exit_code, 0) << gram.err;
    EXPECT_EQ(json::parse(gram.out).at("chip_unknowns").at("draws"), 3);
    EXPECT_GE(json::parse(gram.out).at("chip_unknowns").at("gram_error").get<double>(), 0.0);
    expect_fails("gram --dataset twonorm --backend hermes-published --chip-draws 3", 2, "its file has 0");
    expect_fails("gram --dataset twonorm --chip-draws 3", 2, "need a chip as backend");
    expect_chip_fails("fit" + common + " --posterior 3", 2, "add --free");
}

}  // namespace
