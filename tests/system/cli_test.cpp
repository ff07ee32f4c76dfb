// The program from the command line: exit codes, JSON, files, bad input.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "imka/features/feature_map.hpp"
#include "imka/graph/onnx_import.hpp"
#include "imka/io/npy.hpp"
#include "support/command.hpp"
#include "support/paths.hpp"
#include "support/temp_dir.hpp"

namespace {

using nlohmann::json;

// Files that a command left in a folder.
std::size_t files_in(const std::filesystem::path& dir) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(dir), {}));
}

// 200 rows of two linearly separable classes.
std::string csv_rows() {
    std::string text = "a,b,class\n";
    for (int i = 0; i < 200; ++i) {
        text += std::to_string(i % 17) + "." + std::to_string(i % 7) + "," + std::to_string((i * 7) % 23) +
                "," + (i % 17 > 8 ? "yes" : "no") + "\n";
    }
    return text;
}

TEST(Cli, RidgeOnGeneratedDataPrintsTheDocumentedJson) {
    const auto r = run_imka(
        "ridge --dataset ringnorm --kernel rbf --gamma 0.05 --sampler orf --log-ratio 5 --seeds 0..4 --json "
        "--threads 2");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto j = json::parse(r.out);
    EXPECT_EQ(j.at("D"), 1280);
    EXPECT_EQ(j.at("accuracy").at("values").size(), 5U);
    // The Bayes rule reaches 98.8 %.
    EXPECT_GT(j.at("accuracy").at("mean"), 0.975);
    EXPECT_LT(j.at("accuracy").at("mean"), 0.993);
    EXPECT_LT(j.at("gram_error").at("mean"), 0.1);
    const auto again = run_imka(
        "ridge --dataset ringnorm --kernel rbf --gamma 0.05 --sampler orf --log-ratio 5 --seeds 0..4 --json "
        "--threads 7");
    EXPECT_EQ(r.out, again.out) << "results must not depend on threads";
}

TEST(Cli, EveryVerbHasHelpWithExamples) {
    for (const auto* verb :
         {"data list", "data info", "data show", "data fetch", "data verify", "data export", "data generate",
          "features", "gram", "ridge", "sweep", "reproduce", "bench", "doctor", "completion"}) {
        const auto r = run_imka(std::string(verb) + " --help");
        EXPECT_EQ(r.exit_code, 0) << verb;
        EXPECT_NE(r.out.find("Examples:"), std::string::npos) << verb;
        EXPECT_NE(r.out.find(std::string("imka ") + verb), std::string::npos) << verb;
    }
}

TEST(Cli, BadUsageIsExitCode2BeforeAnyWork) {
    expect_fails("", 2, "subcommand");
    expect_fails("ridge --kernal rbf", 2, "--kernal");
    expect_fails("ridge --kernel rbx", 2, "'rbx' is not a known kernel; known: rbf, laplace");
    expect_fails("ridge --n-components 0", 2, "n_components: 0 is out of range");
    expect_fails("ridge --n-components 101", 2, "not a multiple of 2");
    expect_fails("ridge --n-components 10 --log-ratio 2", 2, "both set the number of features; give one");
    expect_fails("ridge --n-components 1000000000000", 2, "more than the");
    expect_fails("ridge --gamma -1", 2, "gamma: -1 is out of range");
    expect_fails("ridge --gamma nan", 2, "gamma");
    expect_fails("ridge --alpha -0.5", 2, "alpha");
    expect_fails("ridge --seeds 5..1", 2, "counts backwards");
    expect_fails("ridge --seeds 1,1", 2, "duplicate value");
    expect_fails("ridge --kernel laplace --sampler orf", 2, "radial law");
    expect_fails("ridge --kernel arccos0 --form cos_sin", 2, "no features of the form");
    expect_fails("ridge --set gamma", 2, "KEY=VALUE");
    expect_fails("ridge --set gamme=1", 2, "'gamme' is not a known setting");
    expect_fails("ridge --backend abacus", 2, "'abacus' is not a known backend");
    expect_fails("ridge --threads -1", 2, "--threads");
    expect_fails("ridge --load x", 2, "x");
    expect_fails("ridge --predict /dev/null", 2, "--load");
    expect_fails("features", 2, "expected --input FILE and --output FILE.npy");
}

TEST(Cli, SettingsComeFromFileThenSetThenFlag) {
    const TempDir dir;
    write_text(dir / "s.yaml", "kernel: arccos0\nsampler: rff\nlog_ratio: 1\nseeds: [3, 5..6]\n");
    const auto config = "'" + (dir / "s.yaml").string() + "'";
    auto j = json::parse(run_imka("gram --json --config " + config).out);
    EXPECT_EQ(j.at("kernel"), "arccos0");
    EXPECT_EQ(j.at("gamma"), nullptr);
    EXPECT_EQ(j.at("seeds"), json({3, 5, 6}));
    EXPECT_EQ(j.at("m"), 40);
    j = json::parse(
        run_imka("gram --json --set log_ratio=2 --set sampler=orf --sampler sorf --config " + config).out);
    EXPECT_EQ(j.at("m"), 80);
    EXPECT_EQ(j.at("sampler"), "sorf");
    write_text(dir / "bad.yaml", "kernel: arccos0\nsampel: rff\n");
    expect_fails("gram --config '" + (dir / "bad.yaml").string() + "'", 2,
                 "bad.yaml: line 2: 'sampel' is not a known setting");
}

TEST(Cli, BadDataIsExitCode3) {
    const TempDir dir;
    const auto path = [&](const std::string& name) { return "'" + (dir / name).string() + "'"; };
    write_text(dir / "nan.csv", "1,2,a\n3,nan,b\n");
    expect_fails("ridge --dataset " + path("nan.csv"), 3, "line 2");
    write_text(dir / "empty.csv", "");
    expect_fails("ridge --dataset " + path("empty.csv"), 3, "empty.csv");
    write_text(dir / "ragged.csv", "1,2,a\n3,b\n");
    expect_fails("ridge --dataset " + path("ragged.csv"), 3, "line 2");
    write_text(dir / "single.csv", "1,2,a\n3,4,a\n5,6,a\n7,8,a\n");
    expect_fails("ridge --dataset " + path("single.csv"), 3, "class");
    write_text(dir / "nolabel.libsvm", "1:3 2:4\n");
    expect_fails("ridge --dataset " + path("nolabel.libsvm"), 3, "line 1");
    write_text(dir / "huge.libsvm", "1 1:1 2000000000:1\n-1 1:2\n");
    EXPECT_NE(run_imka("ridge --dataset " + path("huge.libsvm")).exit_code, 0);
    write_text(dir / "junk.imka", "not a model");
    write_text(dir / "x.csv", "1,2\n");
    expect_fails(
        "ridge --load " + path("junk.imka") + " --predict " + path("x.csv") + " --output " + path("y.csv"), 3,
        "junk.imka");
    EXPECT_FALSE(std::filesystem::exists(dir / "y.csv"));
}

TEST(Cli, AMissingDataSetIsExitCode4AndSaysHowToGetIt) {
    const TempDir dir;
    expect_fails("ridge --dataset letter --data-dir '" + dir.path().string() + "'", 4,
                 "imka data fetch letter");
    expect_fails("ridge --dataset lettre", 2, "letter");
}

TEST(Cli, FeaturesOfAFileHaveTheBitsOfTheLibrary) {
    const TempDir dir;
    const auto input = dir / "x.csv";
    write_text(input, csv_rows());
    const auto r = run_imka(
        "features --input '" + input.string() + "' --output '" + (dir / "z.npy").string() +
        "' --kernel matern52 --gamma 0.1 --sampler orf --n-components 30 --seed 4 --json --save-omega '" +
        (dir / "omega.npy").string() + "'");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(json::parse(r.out).at("rows"), 200);
    const imka::FeatureMap map({.omega = {.kernel = imka::Kernel::matern52,
                                          .gamma = 0.1,
                                          .sampler = imka::Sampler::orf,
                                          .d = 2,
                                          .m = 15,
                                          .seed = 4}});
    const auto z = imka::read_npy(dir / "z.npy");
    ASSERT_EQ(z.rows(), 200U);
    imka::Matrix<float> x(1, 2);
    x(0, 0) = 3.3F;
    x(0, 1) = 21.0F;
    const auto expected = map.transform(std::as_const(x).view(), imka::Exec{});
    for (std::size_t c = 0; c < 30; ++c) EXPECT_EQ(z(3, c), expected(0, c));
    EXPECT_EQ(imka::read_npy(dir / "omega.npy"), imka::sample(map.recipe().omega));
}

TEST(Cli, AModelPredictsWhatItLearned) {
    const TempDir dir;
    const auto path = [&](const std::string& name) { return "'" + (dir / name).string() + "'"; };
    write_text(dir / "x.csv", csv_rows());
    ASSERT_EQ(run_imka("ridge --dataset " + path("x.csv") + " --n-components 64 --alpha 0.01 --save " +
                       path("m.imka"))
                  .exit_code,
              0);
    const auto r = run_imka("ridge --load " + path("m.imka") + " --predict " + path("x.csv") + " --output " +
                            path("y.csv") + " --json");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_GT(json::parse(r.out).at("accuracy"), 0.95);
    const auto lines = imka::read_file(dir / "y.csv", 1U << 20U);
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 201);
    write_text(dir / "wide.csv", "1,2,3,no\n");
    expect_fails(
        "ridge --load " + path("m.imka") + " --predict " + path("wide.csv") + " --output " + path("z.csv"), 3,
        "feature");
    EXPECT_FALSE(std::filesystem::exists(dir / "z.csv"));
}

TEST(Cli, UnwritableOutputKeepsExistingFiles) {
    const TempDir dir;
    write_text(dir / "x.csv", csv_rows());
    const auto input =
        "features --n-components 4096 --kernel arccos0 --input '" + (dir / "x.csv").string() + "' --output ";
    // A missing folder, a device, and a file size limit of 100 blocks.
    const auto absent = run_imka(input + "'" + (dir / "none/z.npy").string() + "'");
    EXPECT_EQ(absent.exit_code, 3) << absent.err;
    EXPECT_EQ(run_imka(input + "/dev/null").exit_code, 3);
    write_text(dir / "z.npy", "old");
    const auto full = run_imka(input + "'" + (dir / "z.npy").string() + "'", "ulimit -f 100;");
    EXPECT_EQ(full.exit_code, 3) << full.err;
    EXPECT_NE(full.err.find("z.npy"), std::string::npos) << full.err;
    EXPECT_EQ(imka::read_file(dir / "z.npy", 100), "old");
    EXPECT_EQ(files_in(dir.path()), 2U) << "a temporary file was left behind";
    const auto model =
        run_imka("ridge --dataset ringnorm --log-ratio 1 --save '" + (dir / "none/m.imka").string() + "'");
    EXPECT_EQ(model.exit_code, 3) << model.err;
}

TEST(Cli, AFullStandardOutputIsAnErrorAClosedPipeIsNot) {
    const std::string program = "'" + binary_dir() + "/imka' doctor --json";
    EXPECT_EQ(WEXITSTATUS(std::system((program + " > /dev/full 2> /dev/null").c_str())), 3);
    // `true` reads nothing; the program must not complain.
    const TempDir dir;
    const auto err = dir / "err";
    ASSERT_EQ(std::system(("{ sleep 0.2; " + program + "; } 2> '" + err.string() + "' | true").c_str()), 0);
    EXPECT_EQ(imka::read_file(err, 1000), "");
}

TEST(Cli, TheFlagOverridesTheEnvironment) {
    const TempDir dir;
    const auto r = run_imka("doctor --json --data-dir '" + dir.path().string() + "'", "IMKA_DATA=/nowhere");
    EXPECT_EQ(json::parse(r.out).at("data_dir"), dir.path().string());
    EXPECT_EQ(json::parse(run_imka("doctor --json", "IMKA_DATA=/nowhere").out).at("data_dir"), "/nowhere");
}

TEST(Cli, AnInterruptIsExitCode130AndLeavesNoFile) {
    const TempDir dir;
    const auto r = run_imka(
        "ridge --dataset ringnorm --log-ratio 6 --seeds 0..9999 --save '" + (dir / "m.imka").string() + "'",
        "timeout --preserve-status -s INT 2");
    EXPECT_EQ(r.exit_code, 130) << r.err;
    EXPECT_EQ(files_in(dir.path()), 0U);
}

TEST(Cli, AKillLeavesNoFileUnderTheFinalName) {
    const TempDir dir;
    (void)run_imka("data generate ringnorm --rows 50000000 --output '" + (dir / "big.csv").string() + "'",
                   "timeout -s KILL 1");
    EXPECT_FALSE(std::filesystem::exists(dir / "big.csv"));
}

TEST(Cli, DoctorAndListPrintJson) {
    const auto doctor = json::parse(run_imka("doctor --json").out);
    EXPECT_TRUE(doctor.contains("blas") && doctor.contains("instruction_sets"));
    EXPECT_EQ(doctor.at("data_sets").size(), 6U);
    EXPECT_EQ(doctor.at("onnx"), imka::graph::has_onnx() ? json(imka::graph::onnx_release()) : json());
    EXPECT_NE(run_imka("doctor").out.find("ONNX models"), std::string::npos);
    const auto list = json::parse(run_imka("features --list --json").out).at("combinations");
    EXPECT_EQ(list.size(), 8U * 5U);
    for (const auto& row : list) {
        EXPECT_TRUE(row.at("bias") == "unbiased" || row.at("bias") == "biased" ||
                    row.at("bias") == "refused");
    }
}

TEST(Cli, DoctorNamesAFasterCoreOfOpenBlas) {
    const auto doctor = json::parse(run_imka("doctor --json", "OPENBLAS_CORETYPE=Prescott ").out);
    const auto blas = doctor.at("blas").get<std::string>();
    if (!blas.ends_with("core Prescott")) GTEST_SKIP() << "cannot choose the kernels of " << blas;
    const auto& sets = doctor.at("instruction_sets");
    const auto has = [&](const char* name) {
        return std::find(sets.begin(), sets.end(), name) != sets.end();
    };
    EXPECT_EQ(doctor.at("faster_blas_core"), has("avx512f") ? json("SkylakeX")
                                             : has("avx2")  ? json("Haswell")
                                                            : json());
}

TEST(Cli, CompletionKnowsVerbsAndOptions) {
    const TempDir dir;
    const auto r = run_imka("completion bash");
    write_text(dir / "c.sh",
               r.out +
                   "\nCOMP_WORDS=(imka ridge --samp); COMP_CWORD=2; _imka; echo \"${COMPREPLY[@]}\"\n"
                   "COMP_WORDS=(imka data ge); COMP_CWORD=2; _imka; echo \"${COMPREPLY[@]}\"\n");
    const auto command = "bash '" + (dir / "c.sh").string() + "' > '" + (dir / "out").string() + "'";
    ASSERT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(imka::read_file(dir / "out", 1000), "--sampler\ngenerate\n");
    for (const auto* shell : {"zsh", "fish"})
        EXPECT_GT(run_imka(std::string("completion ") + shell).out.size(), 1000U);
    expect_fails("completion tcsh", 2, "tcsh");
}

}  // namespace
