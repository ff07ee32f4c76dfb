// Plots as text and as gnuplot scripts.
#include "imka/report/plot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace {

using namespace imka::report;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Plot lines() {
    return {
        .title = "t",
        .x_label = "time",
        .y_label = "error",
        .series = {{.label = "data", .points = {{.x = 1.0, .y = 2.0, .error = 0.5}, {.x = 3600.0, .y = 4.0}}},
                   {.label = "formula",
                    .draw = Draw::curve,
                    .points = {{.x = 1.0, .y = 0.0},
                               {.x = 3600.0, .y = std::numeric_limits<double>::quiet_NaN()}}}},
        .x_axis = XAxis::seconds,
        .log_x = true,
        .from_zero = true};
}

Plot bars() {
    return {
        .title = "t",
        .y_label = "share",
        .series = {{.label = "alone", .points = {{.x = 0.0, .y = 4.0, .error = 1.0}, {.x = 1.0, .y = -1.0}}},
                   {.label = "removed", .points = {{.x = 0.0, .y = 2.0}, {.x = 1.0, .y = 0.0}}}},
        .ticks = {{.at = 0.0, .name = "drift"}, {.at = 1.0, .name = "é"}},
        .bars = true};
}

TEST(PlotText, DrawsLinesWithTicksAndALegend) {
    const auto text = draw_text(lines());
    EXPECT_THAT(text, StartsWith("error\n       4 |"));
    EXPECT_THAT(text, HasSubstr("       0 |x\n"));
    EXPECT_THAT(text, HasSubstr("          1 s"));
    EXPECT_THAT(text, HasSubstr("1 h\n          time\n"));
    EXPECT_THAT(text, EndsWith("          o data\n          x formula\n"));
}

TEST(PlotText, DrawsBarsInProportion) {
    const std::string full(48, '*');
    EXPECT_EQ(draw_text(bars()),
              "share\n"
              "drift |" +
                  full +
                  " 4\n"
                  "      |" +
                  std::string(24, '#') +
                  " 2\n"
                  "é     |" +
                  std::string(12, '-') +
                  " -1\n"
                  "      | 0\n"
                  "       * alone\n"
                  "       # removed\n");
}

TEST(PlotGnuplot, DrawsTimesOnALogarithmicAxis) {
    const auto script = gnuplot_script(lines(), "a/figure", "svg");
    EXPECT_THAT(script, AllOf(HasSubstr("set terminal svg size 560,400"), HasSubstr("set output 'a/figure'"),
                              HasSubstr("set logscale x\n"), Not(HasSubstr("set logscale y")),
                              HasSubstr("set yrange [0:*]"),
                              HasSubstr("set xtics ('1 s' 1, '1 min' 60, '1 h' 3600)")));
    EXPECT_THAT(script, HasSubstr("$s0 using 1:2:4 with yerrorlines lc rgb '#1f6bc4' pt 5"));
    EXPECT_THAT(script, HasSubstr("$s1 using 1:2 with lines lc rgb '#c2571a'"));
    EXPECT_THAT(script, Not(HasSubstr("nan"))) << "points that are not finite are left out";
}

TEST(PlotGnuplot, DrawsGroupsOfBars) {
    const auto script = gnuplot_script(bars(), "f", "png");
    EXPECT_THAT(script,
                AllOf(HasSubstr("set terminal pngcairo size 1120,368"),
                      HasSubstr("set ytics ('drift' 0, 'é' 1)"), HasSubstr("set yrange [1.6:-0.6]"),
                      HasSubstr("set xlabel 'share'"), HasSubstr("with boxxyerror"), HasSubstr("0 4 0 1\n")));
}

TEST(PlotGnuplot, APlotIsIndependentOfThePreviousOne) {
    auto scatter = lines();
    scatter.id = "scatter";
    scatter.log_y = true;
    auto figure = lines();
    figure.id = "figure";
    figure.log_x = false;
    figure.x_axis = XAxis::whole_numbers;
    const auto script = gnuplot_script({scatter, figure}, "f");
    EXPECT_THAT(script, AllOf(HasSubstr("'f/scatter.svg'"), HasSubstr("'f/scatter.pdf'"),
                              HasSubstr("'f/figure.pdf'")));
    const auto second = script.substr(script.rfind("reset\n"));
    EXPECT_THAT(second,
                AllOf(HasSubstr("set xtics 1\n"), Not(HasSubstr("logscale")), HasSubstr("'f/figure.svg'")));
}

}  // namespace
