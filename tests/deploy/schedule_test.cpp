// Schedules against a naive simulation, a verifier, bounds and arithmetic by hand.
#include "imka/deploy/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "deploy/schedules.hpp"
#include "imka/chip/analyse/cost.hpp"
#include "imka/deploy/map.hpp"
#include "support/error.hpp"

namespace imka {
namespace {

using testing::HasSubstr;

constexpr std::size_t kEveryRow = 1'000'000;  // spans: blocks of one row

Schedule schedule_of(const ScheduleProblem& p, const ScheduleOptions& options = {}) {
    return make_schedule(p.pipeline, p.mapping, exact_chip(), cost_data(), options);
}

double products(const Schedule& schedule) {
    return schedule.makespan_seconds / kProduct;
}

// One product per core and tick, row by row: every core takes the waiting product of the earliest inference,
// then the longest way to the end, then the lowest row and step. Matrices have one copy and one tile per
// core. flow: the way is that of rows that flow from step to step; otherwise that of steps one after another.
class NaiveSimulation {
public:
    NaiveSimulation(const ScheduleProblem& problem, std::size_t inferences, bool flow)
        : problem_(problem), flow_(flow) {
        const auto& steps = problem.pipeline.steps;
        for (std::size_t i = 0; i < inferences; ++i) {
            for (std::size_t s = 0; s < steps.size(); ++s) {
                for (const auto& r : problem.mapping.regions) {
                    if (r.matrix != steps[s].matrices[0]) continue;
                    for (std::size_t row = 0; row < steps[s].rows; ++row)
                        open_.push_back({i, s, row, r.core});
                }
            }
        }
    }

    double ticks() {
        std::size_t tick = 0;
        for (; !open_.empty(); ++tick) {
            std::vector<Item> chosen;
            for (std::uint32_t core = 0; core < 4; ++core) {
                const Item* best = nullptr;
                for (const auto& item : open_) {
                    if (item.core == core && ready(item) && (best == nullptr || order(item) < order(*best)))
                        best = &item;
                }
                if (best != nullptr) chosen.push_back(*best);
            }
            for (const auto& item : chosen) std::erase(open_, item);
        }
        return static_cast<double>(tick);
    }

private:
    struct Item {
        std::size_t inference, step, row;
        std::uint32_t core;
        bool operator==(const Item&) const = default;
    };
    std::tuple<std::size_t, double, std::size_t, std::size_t> order(const Item& item) const {
        const auto share =
            static_cast<double>(item.row) / static_cast<double>(problem_.pipeline.steps[item.step].rows);
        return {item.inference, -(flow_ ? way(item.step, share) : path(item.step)), item.row, item.step};
    }
    // The steps that read step s, and whether they need all of its rows.
    std::vector<std::pair<std::size_t, bool>> readers(std::size_t s) const {
        std::vector<std::pair<std::size_t, bool>> list;
        const auto& steps = problem_.pipeline.steps;
        for (std::size_t r = 0; r < steps.size(); ++r) {
            for (const auto& input : steps[r].inputs) {
                if (input.step == s) list.emplace_back(r, input.reads == Reads::all);
            }
        }
        return list;
    }
    double rows(std::size_t s) const { return static_cast<double>(problem_.pipeline.steps[s].rows); }
    double path(std::size_t s) const {
        double longest = 0.0;
        for (const auto& [r, all] : readers(s)) longest = std::max(longest, path(r));
        return rows(s) + longest;
    }
    // Ticks to the end when a share of the rows of a step is done: all other rows and what comes after the
    // last of them, or one row and the same share of a step that reads row by row.
    double way(std::size_t s, double share) const {
        double after = 0.0;
        double longest = 0.0;
        for (const auto& [r, all] : readers(s)) {
            after = std::max(after, way(r, all ? 0.0 : 1.0));
            if (!all) longest = std::max(longest, way(r, share) + 1.0);
        }
        return std::max((1.0 - share) * rows(s) + after, longest);
    }
    bool ready(const Item& item) const {
        const auto& step = problem_.pipeline.steps[item.step];
        return std::ranges::all_of(step.inputs, [&](const StepInput& input) {
            const auto need = needed_rows(problem_.pipeline, step, input, item.row + 1);
            return std::ranges::none_of(open_, [&](const Item& other) {
                return other.inference == item.inference && other.step == input.step && other.row < need;
            });
        });
    }

    const ScheduleProblem& problem_;
    bool flow_;
    std::vector<Item> open_;
};

TEST(Schedule, IsTheShorterOneOfTwoNaiveSimulations) {
    double all = 0.0;
    int flow_is_shorter = 0;
    int path_is_shorter = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        const auto problem = random_problem(seed, 1, false);
        const std::size_t inferences = 1 + seed % 3;
        const auto schedule =
            schedule_of(problem, {.inferences = inferences, .digital = false, .most_spans = kEveryRow});
        const auto flow = NaiveSimulation(problem, inferences, true).ticks();
        const auto path = NaiveSimulation(problem, inferences, false).ticks();
        EXPECT_EQ(products(schedule), std::min(flow, path)) << "seed " << seed;
        all += products(schedule);
        flow_is_shorter += flow < path ? 1 : 0;
        path_is_shorter += path < flow ? 1 : 0;
    }
    EXPECT_GT(all, 1000.0);
    EXPECT_GT(flow_is_shorter, 0);
    EXPECT_GT(path_is_shorter, 0);
}

// None, fast and slow links, with and without latency.
std::optional<HostLink> link_of(std::uint64_t seed) {
    if (seed % 4 == 3) return std::nullopt;
    return HostLink{1e9 / static_cast<double>(1 + seed % 7), seed % 4 == 0 ? 0.0 : 3.0 * kProduct};
}

TEST(Schedule, IsVerifiedAndNotBelowItsBound) {
    int at_bound = 0;
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
        const auto problem = random_problem(seed, 3, true);
        for (const std::size_t spans : {std::size_t{50}, kEveryRow}) {
            for (const std::size_t inferences : {1U, 3U}) {
                const auto schedule = schedule_of(
                    problem, {.inferences = inferences, .link = link_of(seed), .most_spans = spans});
                EXPECT_EQ(error_of([&] {
                              verify_schedule(schedule, problem.pipeline, problem.mapping, exact_chip());
                          }),
                          "no error")
                    << "seed " << seed;
                EXPECT_GE(schedule.makespan_seconds, schedule.bound.seconds * (1.0 - 1e-12))
                    << "seed " << seed;
                at_bound += schedule.makespan_seconds <= schedule.bound.seconds * (1.0 + 1e-12) ? 1 : 0;
            }
        }
    }
    EXPECT_GT(at_bound, 100);  // of 600: the bound is not trivial
}

TEST(Schedule, OfAChainThatStreamsOverlaps) {
    const ScheduleProblem p{
        {.steps = {step_of(0, 100), step_of(1, 100, {{0}}), step_of(2, 100, {{1}})}, .chains = {}},
        mapping_at({{{0}}, {{1}}, {{2}}})};
    const auto schedule = schedule_of(p);
    EXPECT_EQ(products(schedule), 102.0);
    EXPECT_EQ(schedule.bound.seconds, schedule.makespan_seconds);
    EXPECT_EQ(schedule.bound.reason, "critical path");
    EXPECT_EQ(schedule.interval_seconds / kProduct, 100.0);
}

// A slow digital step, a product, a quick digital step and a slow product of three tiles on one core: the
// digital unit must not finish the slow step before it lets rows through.
TEST(Schedule, RowsFlowPastASlowDigitalStep) {
    constexpr std::size_t kRows = 12;
    const auto digital = [](double products_per_row, std::vector<StepInput> inputs) {
        const double rate = parameter(cost_data().parameters, "digital_rate").value;
        return PipelineStep{.name = "digital",
                            .op = "Add",
                            .inputs = std::move(inputs),
                            .rows = kRows,
                            .work = {.additions = kRows * products_per_row * kProduct * rate}};
    };
    ScheduleProblem p{.pipeline = {}, .mapping = mapping_at({{{0}}, {{1, 1, 1}}})};
    p.pipeline.steps = {digital(2.0, {}), step_of(0, kRows, {{0, Reads::rows}}),
                        digital(1.0, {{1, Reads::rows}}), step_of(1, kRows, {{2, Reads::rows}})};
    const auto schedule = schedule_of(p);
    // The first row passes through all steps, and waits once for the digital unit to finish a row; then the
    // slow product never waits. Partial sums take less than 0.001 of a product.
    EXPECT_NEAR(products(schedule), 2.0 + 1.0 + (1.0 + 1.0) + 3.0 * kRows, 0.001);
    EXPECT_NEAR(schedule.bound.seconds / kProduct, 2.0 + 1.0 + 1.0 + 3.0 * kRows, 0.001);
}

TEST(Schedule, WaitsForAllRowsAndForWindows) {
    const auto with = [](const StepInput& input) {
        return products(schedule_of({{.steps = {step_of(0, 100), step_of(1, 100, {input})}, .chains = {}},
                                     mapping_at({{{0}}, {{1}}})}));
    };
    EXPECT_EQ(with({0, Reads::rows}), 101.0);
    EXPECT_EQ(with({0, Reads::window, 20}), 121.0);
    EXPECT_EQ(with({0, Reads::all}), 200.0);
}

TEST(Schedule, OfMatricesOnOneCoreIsOneAfterAnother) {
    const ScheduleProblem p{{.steps = {step_of(0, 100), step_of(1, 100), step_of(2, 50)}, .chains = {}},
                            mapping_at({{{0}}, {{0}}, {{3}}})};
    const auto schedule = schedule_of(p);
    EXPECT_EQ(products(schedule), 200.0);
    EXPECT_EQ(schedule.bound.reason, "core 0");
    EXPECT_EQ(schedule.bound.critical_path_seconds / kProduct, 100.0);
    ASSERT_EQ(schedule.uses.size(), 2U);
    EXPECT_EQ(schedule.uses[1].seconds / kProduct, 50.0);
}

TEST(Schedule, SharesRowsBetweenCopies) {
    const ScheduleProblem p{{.steps = {step_of(0, 100)}, .chains = {}},
                            mapping_at({{{0, 1}, {2, 3}, {4, 5}}})};
    EXPECT_EQ(products(schedule_of(p, {.digital = false})), 34.0);
}

// 1 row, and 3 rows, for 2 copies.
TEST(Schedule, CopiesTakeTurnsWithRowsThatAreLeftOver) {
    for (const std::size_t rows : {1U, 3U}) {
        ScheduleProblem p{.pipeline = {}, .mapping = mapping_at({{{0}, {1}}})};
        p.pipeline.steps = {step_of(0, rows)};
        const auto schedule = schedule_of(p, {.inferences = 6, .digital = false});
        EXPECT_EQ(products(schedule), 3.0 * static_cast<double>(rows));
        verify_schedule(schedule, p.pipeline, p.mapping, exact_chip());
        EXPECT_EQ(schedule_of(p, {.digital = false}).interval_seconds / kProduct,
                  static_cast<double>(rows) / 2.0);
    }
}

TEST(Schedule, GivesCallsAtTheSameTimeTheirOwnCopies) {
    ScheduleProblem p{{.steps = {step_of(0, 100), step_of(0, 100)}, .chains = {}}, mapping_at({{{0}, {1}}})};
    const auto parallel = schedule_of(p);
    EXPECT_EQ(products(parallel), 100.0);
    EXPECT_EQ(parallel.bound.critical_path_seconds, parallel.makespan_seconds);
    for (const auto& span : parallel.spans) EXPECT_EQ(span.copy, span.step);
    p.pipeline.steps[1].inputs = {{0, Reads::all}};  // one after the other: both use both copies
    EXPECT_EQ(products(schedule_of(p)), 100.0);
    EXPECT_EQ(schedule_of(p).bound.critical_path_seconds / kProduct, 100.0);
}

// A third step needs all rows of the first call: both copies do that call first.
TEST(Schedule, SharesCopiesBetweenCallsWhereThatIsFaster) {
    const ScheduleProblem p{
        {.steps = {step_of(0, 100), step_of(0, 100), step_of(1, 100, {{0, Reads::all}})}, .chains = {}},
        mapping_at({{{0}, {1}}, {{2}}})};
    const auto schedule = schedule_of(p);
    EXPECT_EQ(products(schedule), 150.0) << "with copies of their own: 200";
    EXPECT_EQ(schedule.bound.seconds / kProduct, 150.0);
    verify_schedule(schedule, p.pipeline, p.mapping, exact_chip());
}

// Three copies cannot be shared out evenly between two calls.
TEST(Schedule, SharesCopiesBetweenCallsWhereTheyDoNotDivide) {
    const ScheduleProblem p{{.steps = {step_of(0, 90), step_of(0, 90)}, .chains = {}},
                            mapping_at({{{0}, {1}, {2}}})};
    EXPECT_EQ(products(schedule_of(p)), 60.0);
}

TEST(Schedule, StreamsInferences) {
    const ScheduleProblem p{{.steps = {step_of(0, 10), step_of(1, 10, {{0, Reads::all}})}, .chains = {}},
                            mapping_at({{{0}}, {{1}}})};
    const auto schedule = schedule_of(p, {.inferences = 5});
    EXPECT_EQ(products(schedule), 60.0);
    EXPECT_EQ(schedule.interval_seconds / kProduct, 10.0);
    EXPECT_EQ(schedule.bound.seconds / kProduct, 50.0);
}

TEST(Schedule, CountsDigitalWorkPartialSumsAndLinks) {
    const auto data = cost_data();
    const double rate = parameter(data.parameters, "digital_rate").value;
    const double link = 1e9;
    PipelineStep digital{
        .name = "softmax", .op = "Softmax", .inputs = {{0, Reads::all}}, .rows = 4, .is_output = true};
    digital.work.exponentials = 1e7;
    digital.output_bytes = 4000;
    auto product = step_of(0, 4);
    product.input_bytes = 8000;
    const ScheduleProblem p{{.steps = {product, digital}, .chains = {}},
                            mapping_at({{{0, 1}}})};  // two tiles: 10 sums
    EXPECT_NEAR(schedule_of(p).makespan_seconds, 4 * kProduct + 10 / rate + 1e7 / rate, 1e-12);
    EXPECT_EQ(products(schedule_of(p, {.digital = false})), 4.0);
    EXPECT_NEAR(schedule_of(p, {.digital = false, .link = HostLink{link}}).makespan_seconds,
                2000 / link + std::max(3 * 2000 / link, 3 * kProduct) + kProduct + 4000 / link, 1e-12);
}

// Rows that arrive later delay the products by the latency once, not once per row.
TEST(Schedule, LatencyOfTheLinkIsPaidOnceEachWay) {
    auto step = step_of(0, 100);
    step.input_bytes = 100;
    step.output_bytes = 100;
    step.is_output = true;
    const ScheduleProblem p{{.steps = {step}, .chains = {}}, mapping_at({{{0}}})};
    const auto with = [&](double latency) {
        const ScheduleOptions options{
            .digital = false, .link = HostLink{4.0 / kProduct, latency * kProduct}, .most_spans = kEveryRow};
        const auto schedule = schedule_of(p, options);
        verify_schedule(schedule, p.pipeline, p.mapping, exact_chip());
        EXPECT_GE(schedule.makespan_seconds, schedule.bound.seconds);
        return products(schedule);
    };
    EXPECT_EQ(with(0), 100.5) << "sent in and out beside the products";
    EXPECT_EQ(with(7), 114.5);
    EXPECT_THAT(error_of([&] { schedule_of(p, {.link = HostLink{}}); }),
                HasSubstr("host_link_rate: 0 is out of range; it must be > 0"));
    EXPECT_THAT(error_of([&] {
                    schedule_of(p, {.link = HostLink{1e9, -1.0}});
                }),
                HasSubstr("host_link_latency: -1 is out of range"));
}

// Two readers of one input wait for it, and it is sent once.
TEST(Schedule, InputsAreSentOnceForAllReaders) {
    auto a = step_of(0, 10);
    auto b = step_of(1, 10);
    a.input_bytes = 40;
    a.network = {{0, Reads::rows}};
    b.network = {{0, Reads::all}};
    const Pipeline pipeline{.steps = {a, b}, .chains = {}, .inputs = {{"x", 10, 40}}};
    const ScheduleProblem p{with_input_steps(pipeline), mapping_at({{{0}}, {{1}}})};
    ASSERT_EQ(p.pipeline.steps.size(), 3U);
    EXPECT_EQ(p.pipeline.steps[0].input_bytes, 40.0);
    EXPECT_EQ(p.pipeline.steps[1].input_bytes, 0.0);
    const auto schedule =
        schedule_of(p, {.digital = false, .link = HostLink{4.0 / kProduct, 0.0}, .most_spans = kEveryRow});
    verify_schedule(schedule, p.pipeline, p.mapping, exact_chip());
    EXPECT_EQ(products(schedule), 20.0) << "one row per product: b waits for all ten";
    EXPECT_EQ(schedule.uses.back().resource.kind, ResourceKind::link);
    EXPECT_EQ(schedule.uses.back().seconds / kProduct, 10.0);
}

TEST(VerifySchedule, FindsWhatIsWrongOnTheLink) {
    auto step = step_of(0, 8);
    step.input_bytes = 8;
    step.output_bytes = 8;
    step.is_output = true;
    const ScheduleProblem p{{.steps = {step}, .chains = {}}, mapping_at({{{0}}})};
    const auto good = schedule_of(
        p, {.digital = false, .link = HostLink{2.0 / kProduct, kProduct}, .most_spans = kEveryRow});
    const auto error = [&](auto change) {
        auto bad = good;
        change(bad);
        return error_of([&] { verify_schedule(bad, p.pipeline, p.mapping, exact_chip()); });
    };
    const auto on_link = [](const Span& s) { return s.resource.kind == ResourceKind::link; };
    EXPECT_EQ(error([](Schedule&) {}), "no error");
    EXPECT_THAT(error([](Schedule& s) { s.link->latency_seconds *= 2; }),
                HasSubstr("begins before its inputs arrive"));
    EXPECT_THAT(error([&](Schedule& s) { std::erase_if(s.spans, on_link); }), HasSubstr("never sent"));
    EXPECT_THAT(error([&](Schedule& s) { s.spans.erase(std::ranges::find_if(s.spans, on_link)); }),
                HasSubstr("begins before its inputs arrive"));
    EXPECT_THAT(error([&](Schedule& s) {
                    const auto last = std::find_if(s.spans.rbegin(), s.spans.rend(), on_link);
                    last->begin -= 1.5 * kProduct;
                    last->end -= 1.5 * kProduct;
                }),
                HasSubstr("ends after its results are sent"));
}

TEST(VerifySchedule, FindsInputsThatAreNotSent) {
    auto step = step_of(0, 8);
    step.network = {{0, Reads::rows}};
    const ScheduleProblem p{with_input_steps({.steps = {step}, .chains = {}, .inputs = {{"x", 8, 8}}}),
                            mapping_at({{{0}}})};
    auto schedule = schedule_of(p, {.link = HostLink{2.0 / kProduct}, .most_spans = kEveryRow});
    std::erase_if(schedule.spans, [](const Span& s) { return s.step == 0 && s.first_row == 3; });
    EXPECT_THAT(error_of([&] { verify_schedule(schedule, p.pipeline, p.mapping, exact_chip()); }),
                HasSubstr("step 'x', inference 0: row 3 is not sent over the host link"));
}

// The time of matrices one after another is what imka cost calls latency.
TEST(Schedule, OfAListWithoutDependenciesIsTheSumOfItsMatrices) {
    const auto spec = chip_preset("hermes");
    const auto list = parse_shapes("300x300@100 100x50*2@30 64x64@7");
    const auto mapping = map_matrices(list, grid_of(spec)).mapping;
    const auto schedule = make_schedule(pipeline_of(list), mapping, spec, cost_data(), {.digital = false});
    const auto cost = mapping_cost(mapping, spec, {}, cost_data());
    EXPECT_NEAR(schedule.makespan_seconds, cost.latency_seconds, 1e-12);
}

TEST(Schedule, IsRefusedIfItDoesNotFitTheMapping) {
    ScheduleProblem p{{.steps = {step_of(1, 4)}, .chains = {}}, mapping_at({{{0}}})};
    EXPECT_THAT(error_of([&] { schedule_of(p); }),
                HasSubstr("step 's1' multiplies matrix 1; the mapping has only 1 matrix"));
    p.pipeline.steps = {step_of(0, 4)};
    EXPECT_THAT(error_of([&] { schedule_of(p, {.inferences = 0}); }),
                HasSubstr("inferences: 0 is out of range; it must be >= 1"));
    p.mapping.regions.clear();
    EXPECT_THAT(error_of([&] { schedule_of(p); }), HasSubstr("has no region"));
}

// Every kind of damage is found.
TEST(VerifySchedule, FindsWhatIsWrong) {
    PipelineStep relu{.name = "relu", .op = "Relu", .inputs = {{0}}, .rows = 8};
    relu.work.additions = 8e6;
    auto last = step_of(1, 8, {{1}});
    const ScheduleProblem p{{.steps = {step_of(0, 8), relu, last}, .chains = {}},
                            mapping_at({{{0, 1}, {2, 3}}, {{4}}})};
    const auto good = schedule_of(p, {.most_spans = kEveryRow});
    const auto error = [&](auto change) {
        auto bad = good;
        change(bad);
        return error_of([&] { verify_schedule(bad, p.pipeline, p.mapping, exact_chip()); });
    };
    const auto of_step = [](Schedule& s, std::uint32_t step) -> Span& {
        return *std::ranges::find(s.spans, step, &Span::step);
    };
    EXPECT_EQ(error([](Schedule&) {}), "no error");
    EXPECT_THAT(error([](Schedule& s) { s.spans.pop_back(); }), HasSubstr("is never processed"));
    EXPECT_THAT(error([&](Schedule& s) { s.spans.push_back(s.spans.back()); }), HasSubstr("before step"));
    EXPECT_THAT(error([&](Schedule& s) { of_step(s, 0).rows = 9; }), HasSubstr("the step has 8 rows"));
    EXPECT_THAT(error([&](Schedule& s) { of_step(s, 0).end += kProduct; }), HasSubstr("its products take"));
    EXPECT_THAT(error([&](Schedule& s) { of_step(s, 0).resource.core = 3; }),
                HasSubstr("no region on the core"));
    EXPECT_THAT(error([&](Schedule& s) { of_step(s, 0).first_row = 3; }), HasSubstr("different rows"));
    EXPECT_THAT(error([&](Schedule& s) {
                    auto& span = of_step(s, 2);
                    span.begin -= kProduct;
                    span.end -= kProduct;
                }),
                HasSubstr("rows of step 'relu' are ready at"));
    EXPECT_THAT(error([&](Schedule& s) {
                    std::erase_if(s.spans, [](const Span& x) { return x.step == 1 && x.first_row == 0; });
                }),
                HasSubstr("digital work: row 0"));
    EXPECT_THAT(error([&](Schedule& s) { s.makespan_seconds /= 2; }), HasSubstr(" s of "));
}

}  // namespace
}  // namespace imka
