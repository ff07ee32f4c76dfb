// Fits a device model to measurements: programmed targets and reads.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "imka/base/config.hpp"
#include "imka/chip/device/device.hpp"
#include "imka/chip/spec/chip.hpp"

namespace imka {

// Read i belongs to a device programmed to target_us[i].
struct DeviceReads {
    std::vector<double> target_us;
    std::vector<double> read_us;
    std::vector<double> seconds;  // since programming; empty: all at one time
    // Device of each read; empty: the k-th read of every time belongs to device k.
    std::vector<std::size_t> device;
};

struct DeviceFitConfig {
    int degree = 3;         // of the polynomial
    double g_max_us = 0.0;  // u = target / g_max; 0: the largest target
    std::size_t bins = 16;  // for the goodness of fit
};
Fields fields(DeviceFitConfig& config);

struct FittedConstant {
    double value = 0.0;
    double error = 0.0;  // standard error; 0 if the value is at its bound
};

// Reads in one range of targets.
struct SpreadBin {
    double u = 0.0;          // mean
    std::size_t count = 0;   // number of reads
    double offset_us = 0.0;  // mean of read - target
    double sd_us = 0.0;
    double sd_error_us = 0.0;
    double curve_us = 0.0;  // fitted curve
    bool cut = false;       // many reads may be clipped at 0, which narrows the spread; left out of chi²
};

struct DriftFit {
    FittedConstant mean;
    FittedConstant sd;  // over devices
    // With reads at three or more times, the read noise is estimated and subtracted from sd.
    bool noise_removed = false;
    std::size_t devices = 0;
    std::size_t times = 0;
    double t_0_seconds = 0.0;  // the first time
};

struct DeviceFit {
    double g_max_us = 0.0;
    std::size_t reads = 0;  // at the first time
    std::size_t at_zero = 0;
    FittedConstant offset_us;              // mean of read - target
    std::vector<FittedConstant> sigma_us;  // c_0 ... c_degree of the standard deviation as a polynomial in u
    std::vector<SpreadBin> bins;
    double chi2_per_freedom = 0.0;  // of the bins' standard deviations; 0 if there are too few bins
    std::size_t freedom = 0;
    double ks_distance = 0.0;  // of (read - target - offset) / sigma from the standard normal law
    std::size_t ks_reads = 0;  // reads whose distribution does not reach 0
    std::optional<DriftFit> drift;
};

// Maximum likelihood of Gaussian errors around target + offset with standard deviation sigma(u). A read of
// 0 counts as "0 or below", since a conductance cannot be negative. c_0 >= 0. Standard errors come from
// the information matrix. Drift: slope of ln read against ln time per device, then mean and standard
// deviation over devices. Error{bad_config} for a config out of range; Error{bad_data} for values that are
// not finite, negative targets, fewer than 10 reads per constant, identical targets (degree above 0),
// times <= 0, or devices that differ between times.
DeviceFit fit_device(const DeviceReads& reads, const DeviceFitConfig& config);

// Replaces the programming error (and drift) of the model with the fitted one. The mean offset is not part
// of a device model.
DeviceModel with_fit(DeviceModel model, const DeviceFit& fit);

// The chip with the fitted devices; the file of the reads is the source of their constants. Removes the
// pulse model, since the response of single devices was not measured.
ChipSpec with_fit(ChipSpec spec, const DeviceFit& fit, const std::string& file);

// Kolmogorov-Smirnov distance exceeded by 1 % of samples of the correct law. Needs at least one read.
double ks_limit(std::size_t reads);

// Fitted standard deviation of the programming error at u = target / g_max.
double fitted_sigma_us(const DeviceFit& fit, double u);

}  // namespace imka
