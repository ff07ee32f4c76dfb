// imka bench: format and plausibility of its output. Not its speed: no test may depend on that.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "imka/cuda/gpu.hpp"
#include "support/command.hpp"

namespace {

using nlohmann::json;

// A fake interpreter that ignores the script and replies with fixed lines: `answer` to "run".
std::filesystem::path fake_python(const TempDir& dir, const std::string& answer) {
    auto path = dir / "python";
    std::ofstream(path)
        << "#!/bin/sh\n"
           "while read -r command rest; do\n"
           "  case $command in\n"
           "    hello) echo '{\"python\": \"9.9\", \"sklearn\": \"7.7\", \"torch\": null}' ;;\n"
           "    run) echo '"
        << answer
        << "' ;;\n"
           "    check) echo 0.5 ;;\n"
           "    *) echo ok ;;\n"
           "  esac\n"
           "done\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
}

json bench(const std::string& arguments) {
    const auto r = run_imka("bench --quick --json " + arguments);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return json::parse(r.out);
}

TEST(Bench, FeaturesReportTimesLimitsAndACheck) {
    const auto j = bench("features");
    EXPECT_GE(j.at("machine").at("cores"), 1);
    EXPECT_FALSE(j.at("machine").at("blas").get<std::string>().empty());
    for (const auto& [name, rate] : j.at("limits").items()) EXPECT_GT(rate, 0.0) << name;
    ASSERT_EQ(j.at("results").size(), 1U);
    const auto& r = j.at("results").at(0);
    EXPECT_EQ(r.at("name"), "features");
    EXPECT_EQ(r.at("sizes").at("d"), 22);
    EXPECT_EQ(r.at("ours").at("seconds").size(), 3U);
    EXPECT_GT(r.at("ours").at("median_seconds"), 0.0);
    EXPECT_GT(r.at("limit").at("share"), 0.0);
    EXPECT_TRUE(r.at("check").at("ok"));
    EXPECT_LT(r.at("check").at("value"), 0.4);
    for (const auto& rival : r.at("rivals")) {
        if (rival.contains("missing")) {
            EXPECT_FALSE(rival.contains("ratio"));
            continue;
        }
        EXPECT_LE(rival.at("ratio").at("low"), rival.at("ratio").at("median"));
        EXPECT_LE(rival.at("ratio").at("median"), rival.at("ratio").at("high"));
    }
}

TEST(Bench, EveryBenchmarkComputesCorrectResults) {
    const TempDir dir;
    const auto j = bench("all --python '" + fake_python(dir, "0.25").string() + "'");
    std::set<std::string> names;
    for (const auto& r : j.at("results")) {
        names.insert(r.at("name").get<std::string>());
        EXPECT_TRUE(r.at("check").at("ok")) << r.dump();
    }
    std::set<std::string> expected = {"attention", "chip",    "deploy",     "features", "fwht", "normals",
                                      "one_row",   "product", "projection", "ridge",    "sorf", "stream"};
    if (!imka::cuda::gpus().empty())
        expected.insert({"cuda_attention", "cuda_chip", "cuda_features", "cuda_performer", "cuda_ridge",
                         "cuda_training"});
    EXPECT_EQ(names, expected);
}

TEST(Bench, OnAGpuNamesMeanTheirVariantsForGpus) {
    const auto sorf = run_imka("bench features sorf --device cuda");
    EXPECT_EQ(sorf.exit_code, 2);
    EXPECT_NE(sorf.err.find("the benchmark sorf has no variant for GPUs"), std::string::npos) << sorf.err;
    if (imka::cuda::gpus().empty()) {
        const auto none = run_imka("bench ridge --device cuda");
        EXPECT_EQ(none.exit_code, 4);
        EXPECT_NE(none.err.find("GPU"), std::string::npos) << none.err;
        EXPECT_TRUE(none.out.empty());
        return;
    }
    const auto j = bench("performer --device cuda:0 --python /bin/false");
    EXPECT_EQ(j.at("results").size(), 3U);
    for (const auto& r : j.at("results")) {
        EXPECT_EQ(r.at("name"), "cuda_performer");
        // Zero if both were computed on the processor.
        EXPECT_GT(r.at("check").at("value"), 0.0);
        EXPECT_TRUE(r.at("check").at("ok"));
    }
}

TEST(Bench, TheRatioIsTheirTimeDividedByOurs) {
    const TempDir dir;
    const auto j = bench("ridge --python '" + fake_python(dir, "0.25").string() + "'");
    const auto& r = j.at("results").at(0);
    const auto& rival = r.at("rivals").at(0);
    EXPECT_EQ(rival.at("name"), "scikit-learn 7.7");
    EXPECT_EQ(rival.at("median_seconds"), 0.25);
    EXPECT_NEAR(rival.at("ratio").at("median").get<double>(),
                0.25 / r.at("ours").at("median_seconds").get<double>(), 1e-9);
    EXPECT_EQ(r.at("targets").at(0).at("reached"), rival.at("ratio").at("median"));
    EXPECT_EQ(rival.at("check"), 0.5);
}

TEST(Bench, ReportsAMissingOrBrokenPeer) {
    const TempDir dir;
    auto rival = bench("ridge --python '" + fake_python(dir, "missing python3-sklearn").string() + "'")
                     .at("results")
                     .at(0)
                     .at("rivals")
                     .at(0);
    EXPECT_EQ(rival.at("missing"), "python3-sklearn");
    rival = bench("ridge --python '" + fake_python(dir, "error out of luck").string() + "'")
                .at("results")
                .at(0)
                .at("rivals")
                .at(0);
    EXPECT_EQ(rival.at("error"), "out of luck");
    rival = bench("ridge --python /bin/false").at("results").at(0).at("rivals").at(0);
    EXPECT_EQ(rival.at("missing"), "python3");
    const auto table = run_imka("bench ridge --quick --python /bin/false");
    EXPECT_EQ(table.exit_code, 0);
    EXPECT_NE(table.out.find("missing (python3)"), std::string::npos) << table.out;
}

TEST(Bench, ComparesTheChipWithPlainProducts) {
    const auto j = bench("chip --python /bin/false");
    const auto& linear = j.at("results").at(0);
    const double multiple = linear.at("times_of_sgemm").get<double>();
    EXPECT_GT(multiple, 0.0);
    EXPECT_EQ(linear.at("targets").at(0).at("reached"), multiple);
    EXPECT_NEAR(multiple * linear.at("rivals").at(0).at("ratio").at("median").get<double>(), 1.0, 1e-9);
    EXPECT_EQ(linear.at("rivals").at(2).at("name"), "aihwkit");
    EXPECT_EQ(linear.at("rivals").at(2).at("missing"), "python3");
    EXPECT_GT(linear.at("literal_times_slower"), 0.0);
    std::multiset<int> cores;
    for (const auto& r : j.at("results")) {
        if (!r.contains("nanoseconds_per_core_product")) continue;
        cores.insert(r.at("sizes").at("cores").get<int>());
        EXPECT_GT(r.at("nanoseconds_per_core_product"), 0.0);
        EXPECT_GT(r.at("times_of_pieces"), 0.0);
    }
    EXPECT_EQ(cores, (std::multiset<int>{1, 1, 4}));
}

TEST(Bench, ComparesAttentionWithPyTorch) {
    const auto j = bench("attention");
    const auto& kernelised = j.at("results").at(0);
    EXPECT_EQ(kernelised.at("sizes").at("heads"), 2);
    EXPECT_GT(kernelised.at("limit").at("share"), 0.0);
    const auto& causal = j.at("results").at(2);
    EXPECT_EQ(causal.at("targets").at(0).at("at_most"), 1.5);
    for (const auto& result : j.at("results")) EXPECT_TRUE(result.at("check").at("ok")) << result.dump();
    const auto& favor = kernelised.at("rivals").at(0);
    if (!favor.contains("check")) GTEST_SKIP() << "needs PyTorch: " << favor.dump();
    EXPECT_LE(favor.at("check"), 1e-4);
    EXPECT_LE(kernelised.at("rivals").at(1).at("check"), 1e-4);
    EXPECT_EQ(kernelised.at("targets").at(0).at("reached"), favor.at("ratio").at("median"));
}

TEST(Bench, ComparesANetworkWithOtherRuntimesAndItsEmulation) {
    const auto j = bench("deploy");
    const auto& digital = j.at("results").at(0);
    if (!digital.contains("ours"))
        GTEST_SKIP() << "needs PyTorch and a build with ONNX: " << digital.at("rivals").dump();
    EXPECT_EQ(digital.at("sizes").at("layers"), 2);
    EXPECT_GT(digital.at("gflops"), 0.0);
    EXPECT_GT(digital.at("limit").at("share"), 0.0);
    EXPECT_TRUE(digital.at("check").at("ok"));
    EXPECT_GT(digital.at("check").at("value"), 0.0);  // two programs round differently
    const auto& torch = digital.at("rivals").at(0);
    EXPECT_LE(torch.at("check"), 1e-4);
    EXPECT_EQ(digital.at("targets").at(0).at("reached"), torch.at("ratio").at("median"));
    const auto& emulated = j.at("results").at(1);
    EXPECT_EQ(emulated.at("rivals").at(0).at("name"), "digital");
    EXPECT_GT(emulated.at("cores"), 0);
    EXPECT_GT(emulated.at("check").at("value"), 0.0);
    EXPECT_EQ(emulated.at("targets").at(0).at("at_most"), 5.0);
}

TEST(Bench, SaysWhyANetworkWasNotRun) {
    const TempDir dir;
    const auto python = fake_python(dir, "missing python3-torch").string();
    const auto j = bench("deploy --python '" + python + "'");
    ASSERT_EQ(j.at("results").size(), 1U);
    const auto& r = j.at("results").at(0);
    EXPECT_FALSE(r.contains("ours"));
    EXPECT_EQ(r.at("rivals").at(0).at("missing"), "python3-torch");
    const auto table = run_imka("bench deploy --quick --python '" + python + "'");
    EXPECT_EQ(table.exit_code, 0);
    EXPECT_NE(table.out.find("not run"), std::string::npos) << table.out;
}

TEST(Bench, CalibrateComparesTheModelWithMeasurements) {
    const auto j = bench("--calibrate");
    EXPECT_EQ(j.at("least_gain"), 1.5);
    for (const auto* name : {"dense_fixed", "dense_input", "structured_fixed", "structured_level"}) {
        EXPECT_GT(j.at("constants").at(name), 0.0) << name;
        EXPECT_TRUE(j.at("fitted").at(name).is_number()) << name;
    }
    ASSERT_EQ(j.at("shapes").size(), 2U);
    EXPECT_LE(j.at("agreements"), 2);
    for (const auto& s : j.at("shapes")) {
        EXPECT_GT(s.at("dense_nanoseconds"), 0.0);
        EXPECT_NEAR(s.at("gain").get<double>(),
                    s.at("dense_nanoseconds").get<double>() / s.at("structured_nanoseconds").get<double>(),
                    1e-9);
    }
    // d = 8: 256 (0.08 + 8 * 0.02) / (256 (0.17 + 3 * 0.055)).
    EXPECT_NEAR(j.at("shapes").at(0).at("model_gain").get<double>(), 0.24 / 0.335, 1e-9);
    const auto table = run_imka("bench --quick --calibrate");
    EXPECT_NE(table.out.find("kProjectionConstants = {"), std::string::npos) << table.out;
}

TEST(Bench, BadUsageIsExitCode2) {
    EXPECT_EQ(run_imka("bench sorf --calibrate").exit_code, 2);
    EXPECT_EQ(run_imka("bench sprint").exit_code, 2);
    EXPECT_EQ(run_imka("bench --rounds 0").exit_code, 2);
    EXPECT_EQ(run_imka("bench features --quick --python /no/such/python").exit_code, 2);
}

}  // namespace
