#include "imka/chip/device/fit_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <span>

#include "imka/base/error.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/linalg/factor.hpp"

namespace imka {
namespace {

constexpr std::size_t kReadsPerConstant = 10;
constexpr double kFar = 3.0;  // standard deviations from 0 beyond which clipping at 0 is negligible

double normal_share(double z) {
    return 0.5 * std::erfc(-z / std::sqrt(2.0));
}

// density / probability of the standard normal law; accurate even far below 0, where both vanish.
double hazard(double z) {
    return z < -30.0 ? -z : std::exp(-0.5 * z * z) / std::sqrt(2.0 * M_PI) / normal_share(z);
}

double log_share(double z) {
    return z < -30.0 ? -0.5 * z * z - std::log(-z * std::sqrt(2.0 * M_PI)) : std::log(normal_share(z));
}

struct Point {
    double u = 0.0;
    double target = 0.0;
    double read = 0.0;
};

// Score and information of one read's log-likelihood in the offset b and the standard deviation s.
struct Derivatives {
    double b = 0.0;
    double s = 0.0;
    double bb = 0.0;
    double bs = 0.0;
    double ss = 0.0;
};

Derivatives seen(double rest, double s) {
    // Uses the expected information, which is never negative.
    return {.b = rest / (s * s),
            .s = (rest * rest / (s * s) - 1.0) / s,
            .bb = 1.0 / (s * s),
            .bs = 0.0,
            .ss = 2.0 / (s * s)};
}

Derivatives at_zero(double mean, double s) {
    const double z = -mean / s;
    const double h = hazard(z);
    const double curvature = h * (z + h);  // of -ln share
    const double z_b = -1.0 / s;
    const double z_s = -z / s;
    return {.b = h * z_b,
            .s = h * z_s,
            .bb = curvature * z_b * z_b,
            .bs = curvature * z_b * z_s,
            .ss = curvature * z_s * z_s};
}

// Constants in the order offset, c_0, c_1, ...; c_0 may be fixed at 0.
class Likelihood {
public:
    Likelihood(std::vector<Point> points, std::size_t constants, bool hold_c0)
        : points_(std::move(points)), constants_(constants), hold_c0_(hold_c0) {
        double sum = 0.0;
        for (const auto& p : points_) sum += (p.read - p.target) * (p.read - p.target);
        spread_ = std::sqrt(sum / static_cast<double>(points_.size()));
    }

    double spread() const { return spread_; }
    bool held(std::size_t k) const { return hold_c0_ && k == 1; }

    // -infinity if a standard deviation is not positive.
    double value(const std::vector<double>& theta) const {
        double sum = 0.0;
        for (const auto& p : points_) {
            const double s = deviation(theta, p.u);
            if (!(s > least())) return -std::numeric_limits<double>::infinity();
            const double mean = p.target + theta[0];
            const double rest = p.read - mean;
            sum += p.read > 0.0 ? -std::log(s) - 0.5 * rest * rest / (s * s) : log_share(-mean / s);
        }
        return sum;
    }

    void derive(const std::vector<double>& theta, std::vector<double>& slope,
                Matrix<double>& information) const {
        slope.assign(constants_, 0.0);
        information = Matrix<double>(constants_, constants_);
        std::vector<double> power(constants_, 0.0);
        for (const auto& p : points_) {
            const double s = deviation(theta, p.u);
            const double mean = p.target + theta[0];
            const auto d = p.read > 0.0 ? seen(p.read - mean, s) : at_zero(mean, s);
            double u = 1.0;
            for (std::size_t k = 1; k < constants_; ++k, u *= p.u) power[k] = held(k) ? 0.0 : u;
            slope[0] += d.b;
            information(0, 0) += d.bb;
            for (std::size_t k = 1; k < constants_; ++k) {
                slope[k] += d.s * power[k];
                information(0, k) += d.bs * power[k];
                for (std::size_t l = 1; l < constants_; ++l) information(k, l) += d.ss * power[k] * power[l];
            }
        }
        for (std::size_t k = 1; k < constants_; ++k) {
            information(k, 0) = information(0, k);
            if (held(k)) information(k, k) = 1.0;
        }
    }

private:
    double least() const { return 1e-4 * spread_; }
    double deviation(const std::vector<double>& theta, double u) const {
        const double s = polynomial(std::span(theta).subspan(1), u);
        // With c_0 held at 0 the curve is 0 at u = 0, where reads still need a likelihood.
        return hold_c0_ ? std::max(s, 2.0 * least()) : s;
    }

    std::vector<Point> points_;
    std::size_t constants_;
    bool hold_c0_;
    double spread_ = 0.0;
};

Matrix<double> solved(Matrix<double> a, Matrix<double> b) {
    solve_positive_definite(a.view(), b.view(), "the information of the fit", {.threads = 1});
    return b;
}

// Fisher scoring; steps are halved until the likelihood rises.
std::vector<double> maximise(const Likelihood& likelihood, std::size_t constants) {
    std::vector<double> theta(constants, 0.0);
    theta[likelihood.held(1) ? std::min<std::size_t>(2, constants - 1) : 1] = likelihood.spread();
    double value = likelihood.value(theta);
    std::vector<double> slope;
    Matrix<double> information;
    for (int iteration = 0; iteration < 500; ++iteration) {
        likelihood.derive(theta, slope, information);
        Matrix<double> step(constants, 1);
        for (std::size_t k = 0; k < constants; ++k) step(k, 0) = slope[k];
        step = solved(information, std::move(step));
        double gained = 0.0;
        double share = 1.0;
        for (int halving = 0; halving < 27; ++halving, share *= 0.5) {  // down to 1e-8
            auto next = theta;
            for (std::size_t k = 0; k < constants; ++k) next[k] += share * step(k, 0);
            const double better = likelihood.value(next);
            if (better > value) {
                gained = better - value;
                theta = std::move(next);
                value = better;
                break;
            }
        }
        if (gained < 1e-9) break;
    }
    return theta;
}

std::vector<double> standard_errors(const Likelihood& likelihood, const std::vector<double>& theta) {
    std::vector<double> slope;
    Matrix<double> information;
    likelihood.derive(theta, slope, information);
    const std::size_t n = theta.size();
    Matrix<double> unit(n, n);
    for (std::size_t k = 0; k < n; ++k) unit(k, k) = 1.0;
    const auto covariance = solved(information, std::move(unit));
    std::vector<double> errors(n);
    for (std::size_t k = 0; k < n; ++k) errors[k] = likelihood.held(k) ? 0.0 : std::sqrt(covariance(k, k));
    return errors;
}

void check_reads(const DeviceReads& reads) {
    const std::size_t n = reads.target_us.size();
    if (reads.read_us.size() != n || (!reads.seconds.empty() && reads.seconds.size() != n) ||
        (!reads.device.empty() && reads.device.size() != n))
        fail(ErrorCode::bad_data, "targets, reads, times and devices differ in number");
    for (std::size_t i = 0; i < n; ++i) {
        if (!std::isfinite(reads.target_us[i]) || reads.target_us[i] < 0.0)
            fail(ErrorCode::bad_data,
                 fmt::format("target {} is {} uS; it must be >= 0", i + 1, reads.target_us[i]));
        if (!std::isfinite(reads.read_us[i]))
            fail(ErrorCode::bad_data,
                 fmt::format("read {} is {}; it must be finite", i + 1, reads.read_us[i]));
        if (!reads.seconds.empty() && !(std::isfinite(reads.seconds[i]) && reads.seconds[i] > 0.0))
            fail(ErrorCode::bad_data,
                 fmt::format("time {} is {} s; it must be > 0", i + 1, reads.seconds[i]));
    }
}

// Rows of each time, in file order.
std::map<double, std::vector<std::size_t>> rows_by_time(const DeviceReads& reads) {
    std::map<double, std::vector<std::size_t>> times;
    for (std::size_t i = 0; i < reads.target_us.size(); ++i)
        times[reads.seconds.empty() ? 0.0 : reads.seconds[i]].push_back(i);
    return times;
}

// Rows of each device, ordered by time.
std::map<std::size_t, std::vector<std::size_t>> rows_by_device(
    const DeviceReads& reads, const std::map<double, std::vector<std::size_t>>& times) {
    std::map<std::size_t, std::vector<std::size_t>> devices;
    for (const auto& [seconds, rows] : times) {
        if (reads.device.empty() && rows.size() != times.begin()->second.size())
            fail(ErrorCode::bad_data,
                 fmt::format(
                     "{} reads at {} s and {} at {} s; each time must list the same devices in the same "
                     "order, or a column 'device' must name them",
                     times.begin()->second.size(), times.begin()->first, rows.size(), seconds));
        for (std::size_t k = 0; k < rows.size(); ++k) {
            auto& mine = devices[reads.device.empty() ? k : reads.device[rows[k]]];
            if (!mine.empty() && reads.target_us[mine[0]] != reads.target_us[rows[k]])
                fail(ErrorCode::bad_data,
                     fmt::format("row {}: the target is {} uS; row {}, the same device, has {} uS",
                                 rows[k] + 1, reads.target_us[rows[k]], mine[0] + 1,
                                 reads.target_us[mine[0]]));
            mine.push_back(rows[k]);
        }
    }
    return devices;
}

struct Slope {
    double value = 0.0;
    double moment = 0.0;  // sum of squares of ln t around its mean
    double rest = 0.0;    // residual sum of squares
    std::size_t freedom = 0;
};

std::optional<Slope> device_slope(const DeviceReads& reads, const std::vector<std::size_t>& rows) {
    std::vector<double> x;
    std::vector<double> y;
    for (const auto r : rows) {
        if (reads.read_us[r] <= 0.0) return std::nullopt;
        x.push_back(std::log(reads.seconds[r]));
        y.push_back(std::log(reads.read_us[r]));
    }
    const auto n = static_cast<double>(x.size());
    const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
    const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
    double xx = 0.0;
    double xy = 0.0;
    double yy = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
        yy += (y[i] - mean_y) * (y[i] - mean_y);
    }
    if (!(xx > 0.0)) return std::nullopt;
    return Slope{
        .value = -xy / xx, .moment = xx, .rest = std::max(0.0, yy - xy * xy / xx), .freedom = x.size() - 2};
}

// Standard deviation of the exponents over devices: the spread of the slopes minus the noise of the reads.
DriftFit summarise_slopes(const std::vector<Slope>& slopes) {
    const auto n = static_cast<double>(slopes.size());
    DriftFit fit{.devices = slopes.size()};
    double rest = 0.0;
    std::size_t freedom = 0;
    for (const auto& s : slopes) {
        fit.mean.value += s.value / n;
        rest += s.rest;
        freedom += s.freedom;
    }
    double variance = 0.0;
    double noise = 0.0;
    for (const auto& s : slopes) {
        variance += (s.value - fit.mean.value) * (s.value - fit.mean.value) / (n - 1.0);
        if (freedom > 0) noise += rest / static_cast<double>(freedom) / s.moment / n;
    }
    fit.noise_removed = freedom > 0;
    fit.mean.error = std::sqrt(variance / n);
    fit.sd.value = std::sqrt(std::max(0.0, variance - noise));
    // From the variance 2 V² / (n - 1), propagated to the root.
    if (fit.sd.value > 0.0) fit.sd.error = variance / std::sqrt(2.0 * (n - 1.0)) / fit.sd.value;
    return fit;
}

std::optional<DriftFit> fit_drift(const DeviceReads& reads,
                                  const std::map<double, std::vector<std::size_t>>& times) {
    if (times.size() < 2) return std::nullopt;
    std::vector<Slope> slopes;
    for (const auto& [device, rows] : rows_by_device(reads, times)) {
        if (rows.size() < 2) continue;
        if (const auto slope = device_slope(reads, rows)) slopes.push_back(*slope);
    }
    if (slopes.size() < kReadsPerConstant)
        fail(ErrorCode::bad_data,
             fmt::format("{} devices were read above 0 at two times or more; drift needs {}", slopes.size(),
                         kReadsPerConstant));
    auto fit = summarise_slopes(slopes);
    fit.times = times.size();
    fit.t_0_seconds = times.begin()->first;
    return fit;
}

SpreadBin make_bin(const std::vector<Point>& points, std::size_t first, std::size_t last,
                   const std::vector<double>& curve, double offset) {
    SpreadBin bin{.count = last - first};
    const auto n = static_cast<double>(bin.count);
    double square = 0.0;
    for (std::size_t i = first; i < last; ++i) {
        const auto& p = points[i];
        const double s = polynomial(curve, p.u);
        bin.u += p.u / n;
        bin.offset_us += (p.read - p.target) / n;
        square += s * s / n;
        if (p.target + offset < kFar * s) bin.cut = true;
    }
    for (std::size_t i = first; i < last; ++i)
        bin.sd_us += std::pow(points[i].read - points[i].target - bin.offset_us, 2) / (n - 1.0);
    bin.sd_us = std::sqrt(bin.sd_us);
    bin.curve_us = std::sqrt(square);
    bin.sd_error_us = bin.curve_us / std::sqrt(2.0 * (n - 1.0));
    return bin;
}

void add_bins(std::vector<Point> points, const std::vector<double>& curve, std::size_t count,
              DeviceFit& fit) {
    std::ranges::stable_sort(points, {}, &Point::u);
    count = std::min(count, points.size() / 10);
    double chi2 = 0.0;
    std::size_t used = 0;
    for (std::size_t b = 0; b < count; ++b) {
        const auto bin = make_bin(points, b * points.size() / count, (b + 1) * points.size() / count, curve,
                                  fit.offset_us.value);
        fit.bins.push_back(bin);
        if (bin.cut) continue;
        chi2 += std::pow((bin.sd_us - bin.curve_us) / bin.sd_error_us, 2);
        ++used;
    }
    if (used <= curve.size()) return;
    fit.freedom = used - curve.size();
    fit.chi2_per_freedom = chi2 / static_cast<double>(fit.freedom);
}

void add_distance(const std::vector<Point>& points, const std::vector<double>& curve, DeviceFit& fit) {
    std::vector<double> z;
    for (const auto& p : points) {
        const double s = polynomial(curve, p.u);
        if (s > 0.0 && p.target + fit.offset_us.value >= kFar * s)
            z.push_back((p.read - p.target - fit.offset_us.value) / s);
    }
    std::ranges::sort(z);
    const auto n = static_cast<double>(z.size());
    for (std::size_t i = 0; i < z.size(); ++i) {
        const double f = normal_share(z[i]);
        const auto rank = static_cast<double>(i);
        fit.ks_distance = std::max({fit.ks_distance, f - rank / n, (rank + 1.0) / n - f});
    }
    fit.ks_reads = z.size();
}

std::vector<Point> first_reads(const DeviceReads& reads, const std::vector<std::size_t>& rows,
                               const DeviceFitConfig& config, DeviceFit& fit) {
    double largest = 0.0;
    for (const auto r : rows) largest = std::max(largest, reads.target_us[r]);
    fit.g_max_us = config.g_max_us > 0.0 ? config.g_max_us : largest;
    if (!(fit.g_max_us > 0.0)) fail(ErrorCode::bad_data, "all targets are 0; expected non-zero values");
    if (largest > fit.g_max_us * (1.0 + 1e-6))
        fail(ErrorCode::bad_data,
             fmt::format("a target is {} uS; it must be at most g_max, {} uS", largest, fit.g_max_us));
    std::vector<Point> points;
    for (const auto r : rows) {
        points.push_back({.u = reads.target_us[r] / fit.g_max_us,
                          .target = reads.target_us[r],
                          .read = std::max(0.0, reads.read_us[r])});
        if (reads.read_us[r] <= 0.0) ++fit.at_zero;
    }
    fit.reads = points.size();
    return points;
}

void check_enough(const std::vector<Point>& points, int degree) {
    const auto constants = static_cast<std::size_t>(degree) + 2;
    if (points.size() < kReadsPerConstant * constants)
        fail(ErrorCode::bad_data, fmt::format("{} reads at the first time; a curve of degree {} needs {}",
                                              points.size(), degree, kReadsPerConstant * constants));
    std::vector<double> targets;
    targets.reserve(points.size());
    for (const auto& p : points) targets.push_back(p.u);
    std::ranges::sort(targets);
    const auto different = static_cast<int>(std::unique(targets.begin(), targets.end()) - targets.begin());
    if (different <= degree)
        fail(ErrorCode::bad_data, fmt::format("{} different targets; a curve of degree {} needs {}",
                                              different, degree, degree + 1));
    if (std::ranges::all_of(points, [](const Point& p) { return p.read == p.target; }))
        fail(ErrorCode::bad_data, "every read equals its target; there is no error to fit");
}

bool is_fitted(const std::string& key, const DeviceFit& fit) {
    if (key == "device.g_max" || key.starts_with("device.programming_")) return true;
    return fit.drift && (key == "device.t_0" || key.starts_with("device.drift_"));
}

}  // namespace

Fields fields(DeviceFitConfig& c) {
    using range::between;
    return {
        field("degree", c.degree,
              between(0, 3,
                      "Degree of the polynomial in u = target / g_max that models the programming error")),
        field("g_max", c.g_max_us, between(0.0, 1e6, "g_max; 0 = the largest target", "uS")),
        field("bins", c.bins, between(2, 1000, "Number of bins of the target for the goodness of fit")),
    };
}

DeviceFit fit_device(const DeviceReads& reads, const DeviceFitConfig& config) {
    auto copy = config;
    check_ranges(fields(copy));
    check_reads(reads);
    if (reads.target_us.empty()) fail(ErrorCode::bad_data, "no reads");
    const auto times = rows_by_time(reads);
    DeviceFit fit;
    const auto points = first_reads(reads, times.begin()->second, config, fit);
    check_enough(points, config.degree);
    const auto constants = static_cast<std::size_t>(config.degree) + 2;
    Likelihood likelihood(points, constants, false);
    auto theta = maximise(likelihood, constants);
    if (theta[1] < 0.0) {
        likelihood = Likelihood(points, constants, true);
        theta = maximise(likelihood, constants);
        theta[1] = 0.0;
    }
    const auto errors = standard_errors(likelihood, theta);
    fit.offset_us = {.value = theta[0], .error = errors[0]};
    for (std::size_t k = 1; k < constants; ++k)
        fit.sigma_us.push_back({.value = theta[k], .error = errors[k]});
    const std::vector<double> curve(theta.begin() + 1, theta.end());
    add_bins(points, curve, config.bins, fit);
    add_distance(points, curve, fit);
    fit.drift = fit_drift(reads, times);
    return fit;
}

DeviceModel with_fit(DeviceModel model, const DeviceFit& fit) {
    std::vector<double> coefficients;
    for (const auto& c : fit.sigma_us) coefficients.push_back(c.value);
    model.g_max_us = fit.g_max_us;
    model.programming_reference_g_max_us = fit.g_max_us;
    model.programming_scale = 1.0;
    // A polynomial may become negative between and beyond the measured targets.
    model.programming_error_us = {.pieces = {{.coefficients = std::move(coefficients), .min = 0.0}}};
    if (!fit.drift) return model;
    model.t_0_seconds = fit.drift->t_0_seconds;
    model.drift_scale = 1.0;
    model.drift_mean = {.pieces = {{.coefficients = {fit.drift->mean.value}}}};
    model.drift_sd = {.pieces = {{.coefficients = {fit.drift->sd.value}}}};
    return model;
}

ChipSpec with_fit(ChipSpec spec, const DeviceFit& fit, const std::string& file) {
    spec.description = fmt::format("{} with devices fitted to {} reads of {}", spec.name, fit.reads, file);
    spec.device = with_fit(spec.device, fit);
    spec.pulses.reset();
    std::erase_if(spec.provenance,
                  [&](const Provenance& p) { return p.key.starts_with("pulses.") || is_fitted(p.key, fit); });
    const auto source = fmt::format("imka chip fit: maximum likelihood, {} reads of {}", fit.reads, file);
    std::vector<std::string> keys = {"device.g_max", "device.programming_error",
                                     "device.programming_reference_g_max"};
    if (fit.drift) keys.insert(keys.end(), {"device.t_0", "device.drift_mean", "device.drift_sd"});
    for (const auto& key : keys) spec.provenance.push_back({.key = key, .source = source});
    validate(spec);
    return spec;
}

double ks_limit(std::size_t reads) {
    return 1.63 / std::sqrt(static_cast<double>(reads));  // limit for many reads
}

double fitted_sigma_us(const DeviceFit& fit, double u) {
    double sum = 0.0;
    for (std::size_t k = fit.sigma_us.size(); k-- > 0;) sum = sum * u + fit.sigma_us[k].value;
    return sum;
}

}  // namespace imka
