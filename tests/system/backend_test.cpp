// The program with a chip as backend: ridge, gram, features, saved models, sweeps, bad input.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "imka/experiment/mpi.hpp"
#include "imka/io/npy.hpp"
#include "support/command.hpp"
#include "support/temp_dir.hpp"

namespace {

using nlohmann::json;

// Two linearly separable classes.
std::string csv_rows(int rows) {
    std::string text = "a,b,class\n";
    for (int i = 0; i < rows; ++i) {
        text += std::to_string(i % 17) + "." + std::to_string(i % 7) + "," + std::to_string((i * 7) % 23) +
                "," + (i % 17 > 8 ? "yes" : "no") + "\n";
    }
    return text;
}

TEST(ChipCli, RidgeAndGramSayWhichChipAndDoNotDependOnThreads) {
    const std::string run =
        "ridge --dataset ringnorm --log-ratio 2 --gram-rows 300 --seeds 0..1 --backend hermes "
        "--compensation outputs --json --quiet";
    const auto r = run_imka(run + " --at 1h --threads 1");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(run_imka(run + " --read-seconds 3600 --threads 7").out, r.out) << "a former option name";
    const auto j = json::parse(r.out);
    EXPECT_EQ(j.at("backend"), "hermes");
    EXPECT_EQ(j.at("chip").at("state"), "compensated");
    EXPECT_EQ(j.at("chip").at("seconds"), 3600.0);
    EXPECT_EQ(j.at("chip").at("hash").get<std::string>().size(), 64U);
    EXPECT_GT(j.at("accuracy").at("mean"), 0.9);

    const auto text = run_imka("gram --dataset ringnorm --log-ratio 2 --backend ideal --quiet");
    ASSERT_EQ(text.exit_code, 0) << text.err;
    EXPECT_NE(text.out.find("on the chip ideal (programmed, read 0 s after programming, 1 core)"),
              std::string::npos)
        << text.out;
}

TEST(ChipCli, ChangedConstantsAreOneSettingHoweverTheyAreGiven) {
    const std::string run =
        "gram --dataset ringnorm --log-ratio 0 --gram-rows 50 --backend hermes --json --quiet ";
    const auto once = run_imka(run + "--chip-set core.adc_noise=2,core.gain_sd=0");
    ASSERT_EQ(once.exit_code, 0) << once.err;
    EXPECT_EQ(run_imka(run + "--chip-set core.adc_noise=2 --chip-set core.gain_sd=0").out, once.out);
}

// Outside imka chip, --set changes settings or does not exist.
TEST(ChipCli, FormerNamesAreOnlyBelowChip) {
    for (const std::string verb : {"run /dev/null", "eval --checkpoint /dev/null", "deploy /dev/null",
                                   "map --network ks", "cost --network ks"}) {
        expect_fails(verb + " --chip hermes", 2, "unknown option '--chip'");
        expect_fails(verb + " --set core.rows=64", 2, "unknown option '--set'");
    }
}

TEST(ChipCli, HelpNamesTheChipsAndTheirSettings) {
    for (const std::string verb : {"ridge", "gram", "features"}) {
        const auto r = run_imka(verb + " --help");
        ASSERT_EQ(r.exit_code, 0);
        for (const std::string part :
             {"|hermes|", "FILE.yaml", "--at", "--compensation", "--chip-set", "--backend hermes"}) {
            EXPECT_NE(r.out.find(part), std::string::npos) << verb << ": " << part;
        }
        EXPECT_EQ(r.out.find("--fit-on") != std::string::npos, verb == "ridge") << verb;
    }
}

TEST(ChipCli, SaysWhatIsWrong) {
    expect_fails("ridge --backend herms", 2, "nearest: hermes");
    expect_fails("gram --backend hermes --read-seconds -1", 2, "'-1' is out of range");
    expect_fails("gram --backend hermes --chip-set core.adc_nois=1", 2, "nearest: core.adc_noise");
    expect_fails("gram --backend hermes --chip-hash 12", 2, "its constants have changed");
    expect_fails("ridge --dataset ringnorm --backend hermes --log-ratio 13 --quiet", 2, "576 missing");
    expect_fails("ridge --backend none.yaml", 3, "none.yaml: cannot be read");
    const TempDir dir;
    write_text(dir / "bad.yaml", "name: a\ndescription: b\ncore:\n  rows: {value: 0}\n");
    expect_fails("ridge --backend " + (dir / "bad.yaml").string(), 2, "line 4: core.rows: 0 is out of range");
    write_text(dir / "nan.csv", "a,b\n1,2\n3,nan\n5,6\n");
    const auto r = run_imka("features --input " + (dir / "nan.csv").string() + " --output " +
                            (dir / "z.npy").string() + " --backend hermes --label-column none --quiet");
    EXPECT_EQ(r.exit_code, 3) << r.err;
    EXPECT_NE(r.err.find("finite"), std::string::npos) << r.err;
    EXPECT_FALSE(std::filesystem::exists(dir / "z.npy"));
}

TEST(ChipCli, FeaturesOfAFileMatchItsRows) {
    const TempDir dir;
    write_text(dir / "x.csv", csv_rows(5000));
    const std::string run = "features --input " + (dir / "x.csv").string() +
                            " --kernel rbf --gamma 0.02 --n-components 64 --standardize --quiet --json";
    const auto map = [&](const std::string& name, const std::string& more) {
        const auto r = run_imka(run + " --output " + (dir / name).string() + " " + more);
        EXPECT_EQ(r.exit_code, 0) << r.err;
        return json::parse(r.out);
    };
    EXPECT_EQ(map("fp32.npy", "--truncation 3").at("backend"), "fp32");
    const auto j = map("ideal.npy", "--backend ideal");
    EXPECT_EQ(j.at("chip").at("cores"), 1);
    map("one.npy", "--backend hermes --threads 1");
    map("many.npy", "--backend hermes --threads 7");
    const auto read = [&](const std::string& name) { return imka::read_file(dir / name, 1U << 24U); };
    EXPECT_EQ(read("one.npy"), read("many.npy"));
    EXPECT_NE(read("one.npy"), read("ideal.npy"));
    // 5000 rows of 64 floats after headers of equal length.
    const auto exact = read("fp32.npy");
    const auto rounded = read("ideal.npy");
    ASSERT_EQ(exact.size(), rounded.size());
    const std::size_t count = std::size_t{5000} * 64;
    const auto floats = [&](const std::string& bytes) {
        std::vector<float> values(count);
        std::memcpy(values.data(), bytes.data() + (bytes.size() - count * sizeof(float)),
                    count * sizeof(float));
        return values;
    };
    const auto a = floats(exact);
    const auto b = floats(rounded);
    // Inputs are rounded to 1/127 of a range below 2 standard deviations, which changes angles of this width
    // by < 0.01.
    for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(a[i], b[i], 0.01 / std::sqrt(32.0)) << i;
}

TEST(ChipCli, ASavedModelRunsOnAChip) {
    const TempDir dir;
    write_text(dir / "x.csv", csv_rows(5000));
    const auto file = (dir / "x.csv").string();
    const auto model = (dir / "m.imka").string();
    const std::string fit = "ridge --dataset " + file + " --n-components 200 --quiet --json --save ";
    ASSERT_EQ(run_imka(fit + model).exit_code, 0);
    const auto predict = [&](const std::string& name, const std::string& more) {
        const auto r = run_imka("ridge --load " + model + " --predict " + file + " --output " +
                                (dir / name).string() + " --json --quiet " + more);
        EXPECT_EQ(r.exit_code, 0) << r.err;
        return r.exit_code == 0 ? json::parse(r.out) : json();
    };
    const auto digital = predict("a", "");
    EXPECT_EQ(digital.at("backend"), "fp32");
    const auto chip = predict("b", "--backend hermes --threads 1");
    EXPECT_EQ(chip.at("chip").at("name"), "hermes");
    EXPECT_GT(chip.at("accuracy"), 0.9);
    EXPECT_LE(chip.at("accuracy"), digital.at("accuracy"));
    predict("c", "--backend hermes --threads 7");
    EXPECT_EQ(imka::read_file(dir / "b", 1U << 20U), imka::read_file(dir / "c", 1U << 20U));
    predict("d", "--backend hermes --seed 1");
    EXPECT_NE(imka::read_file(dir / "b", 1U << 20U), imka::read_file(dir / "d", 1U << 20U));

    // A run on a chip saves the digital model that was tested on the chip.
    const auto other = (dir / "o.imka").string();
    ASSERT_EQ(run_imka(fit + other + " --backend hermes --truncation 0").exit_code, 0);
    EXPECT_EQ(imka::read_file(model, 1U << 24U), imka::read_file(other, 1U << 24U));
}

TEST(ChipCli, AnyNumberOfProcessesGivesTheSameResult) {
    if (!imka::has_mpi()) GTEST_SKIP() << "this build has no MPI (libopenmpi-dev)";
    if (std::system("command -v mpirun > /dev/null") != 0)
        GTEST_SKIP() << "mpirun is not installed (openmpi-bin)";
    const std::string run =
        "ridge --dataset twonorm --n-components 100 --gram-rows 100 --backend hermes --json --quiet";
    const auto alone = run_imka(run);
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    const auto shared = run_imka(
        run, "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 3");
    ASSERT_EQ(shared.exit_code, 0) << shared.err;
    EXPECT_EQ(shared.out, alone.out);
}

TEST(ChipCli, SweepsCanHaveChipsInTheirGrid) {
    const TempDir dir;
    write_text(dir / "e.yaml",
               "name: e\nbase: {dataset: ringnorm, log_ratio: 1, gram_rows: 50}\n"
               "grid: {backend: [fp32, hermes], chip_set: [\"\", \"device.programming_scale=0.5\"]}\n");
    const auto r = run_imka("sweep " + (dir / "e.yaml").string() + " --output " + (dir / "runs").string() +
                            " --json --quiet");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(json::parse(r.out).at("done"), 3) << r.out;
    const auto page = run_imka("report " + (dir / "runs").string() + " --output " +
                               (dir / "page.html").string() + " --json --quiet");
    ASSERT_EQ(page.exit_code, 0) << page.err;
    const auto html = imka::read_file(dir / "page.html", 1U << 26U);
    EXPECT_NE(html.find("orf, hermes, chip_set device.programming_scale=0.5"), std::string::npos);
}

}  // namespace
