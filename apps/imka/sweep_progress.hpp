// Progress and results of a sweep for a person.
#pragma once

#include <chrono>
#include <string>

#include "imka/experiment/sweep.hpp"

namespace imka::app {

// Done, running, failed, rate and time left on standard error: a bar on a terminal, lines every 30 s
// elsewhere.
class SweepProgress {
public:
    SweepProgress();
    ~SweepProgress();
    SweepProgress(const SweepProgress&) = delete;
    SweepProgress& operator=(const SweepProgress&) = delete;
    void show(const SweepStatus& status);

private:
    bool terminal_;
    bool drawn_ = false;
    double shown_ = 0.0;  // seconds since the start
};

// "letter: 300 runs done ...", for standard output.
std::string summary_text(const SweepSummary& summary);
// The same as a JSON object.
std::string summary_json(const Experiment& experiment, const std::string& output,
                         const SweepSummary& summary);

}  // namespace imka::app
