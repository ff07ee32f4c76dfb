// imka reproduce --check: passes if results agree with the published ones, fails otherwise.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "imka/experiment/record.hpp"
#include "support/command.hpp"
#include "support/data_dir.hpp"
#include "support/temp_dir.hpp"

namespace {

using nlohmann::json;

// Accuracies of the smallest cells on letter with rff, shifted.
void write_measured(const std::filesystem::path& runs, double shift, const std::filesystem::path& csv) {
    std::ofstream out(csv);
    out << "dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,metric,value\n";
    for (const auto& r : imka::read_records(runs / "ridge_measured").records) {
        if (r.setting("log_ratio") != "1" || r.setting("sampler") != "rff") continue;
        out << fmt::format("letter,{},rff,1,2,31,{},fp32,acc,{}\n", r.setting("kernel"), r.seed,
                           r.results.at("accuracy") + shift);
    }
}

TEST(ReproduceCheck, FailsIfResultsDiffer) {
    IMKA_NEED_REAL_DATA(data_dir);
    const TempDir dir;
    const auto command = fmt::format(
        "reproduce ridge_measured --check --datasets letter --seeds 0..2 --quiet --json --data-dir '{}' "
        "--output '{}'",
        data_dir.string(), (dir / "runs").string());
    const auto first = run_imka(command);
    const auto verdicts = json::parse(first.out).at("verdicts");
    EXPECT_EQ(verdicts.at("reproduced").get<int>() + verdicts.at("deviates").get<int>(), 60) << first.out;
    EXPECT_EQ(verdicts.at("missing"), 0);
    EXPECT_EQ(first.exit_code, 0) << first.err;

    const auto measured = fmt::format("{} --measured '{}'", command, (dir / "m.csv").string());
    write_measured(dir / "runs", 0.0, dir / "m.csv");
    const auto same = run_imka(measured);
    EXPECT_EQ(same.exit_code, 0) << same.err;
    EXPECT_EQ(json::parse(same.out).at("verdicts").at("reproduced"), 2);
    write_measured(dir / "runs", 0.2, dir / "m.csv");
    const auto other = run_imka(measured);
    EXPECT_EQ(other.exit_code, 1) << other.err;
    EXPECT_EQ(json::parse(other.out).at("verdicts").at("deviates"), 2);
}

TEST(ReproduceCheck, RejectsRunsThatCannotBeCompared) {
    const TempDir dir;
    const auto none = run_imka("reproduce ridge_measured --check --datasets nowhere --quiet --output '" +
                               dir.path().string() + "'");
    EXPECT_EQ(none.exit_code, 2);
    EXPECT_NE(none.err.find("no run uses these data sets"), std::string::npos) << none.err;
}

}  // namespace
