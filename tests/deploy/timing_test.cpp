// Timings: with a host link, inputs become steps, and the work of the link is counted.
#include "imka/deploy/timing.hpp"

#include <gtest/gtest.h>

#include "deploy/schedules.hpp"

namespace imka {
namespace {

// Two products that read one input of 10 rows and 40 bytes.
Pipeline two_readers() {
    auto a = step_of(0, 10);
    auto b = step_of(1, 10);
    a.input_bytes = 40;
    a.network = {{0, Reads::rows}};
    b.network = {{0, Reads::all}};
    return {.steps = {a, b}, .chains = {}, .inputs = {{"x", 10, 40}}};
}

TEST(Timing, InputsAreStepsIfThereIsALink) {
    const auto mapping = mapping_at({{{0}}, {{1}}});
    const auto linked = make_timing(two_readers(), mapping, exact_chip(),
                                    {.digital = false, .link = HostLink{4.0 / kProduct, 0.0}});
    EXPECT_EQ(linked.pipeline.steps.size(), 3U);
    EXPECT_EQ(link_seconds(linked.schedule), 10 * kProduct) << "one row per product";
    const auto alone = make_timing(two_readers(), mapping, exact_chip(), {.digital = false});
    EXPECT_EQ(alone.pipeline.steps.size(), 2U);
    EXPECT_EQ(alone.schedule.makespan_seconds, 10 * kProduct);
    EXPECT_EQ(link_seconds(alone.schedule), 0.0);
}

}  // namespace
}  // namespace imka
