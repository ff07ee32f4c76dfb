#include "imka/experiment/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/data/registry.hpp"
#include "imka/experiment/run.hpp"

namespace imka {
namespace {

constexpr std::string_view kHeader = "dataset,kernel,sampler,log_ratio,m_over_d,m,seed,backend,metric,value";
constexpr std::string_view kSchema = "validate-1";

struct Job {
    std::string dataset;
    Kernel kernel = Kernel::rbf;
    Sampler sampler = Sampler::rff;
    std::int64_t m = 0;
    std::uint64_t seed = 0;
    // clang-tidy 14 takes the zero inside a defaulted comparison for a pointer.
    auto operator<=>(const Job&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct Outcome {
    double acc = 0.0;
    double err = 0.0;
};

using Outcomes = std::map<Job, Outcome>;

std::vector<std::string> split_csv(const std::string& line) {
    std::vector<std::string> parts;
    std::stringstream stream(line);
    for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
    return parts;
}

// The name under which the data are found.
std::string source_of(const std::string& dataset) {
    return dataset.substr(0, dataset.find("-liu-replication"));
}

bool has_random_split(const std::string& dataset) {
    const auto* set = find_set(dataset);
    return set != nullptr && set->random_split;
}

RunConfig config_of(const Job& job) {
    RunConfig config;
    config.dataset = source_of(job.dataset);
    config.protocol = Protocol::measured;
    config.kernel = job.kernel;
    config.sampler = job.sampler;
    config.n_components = job.m * static_cast<std::int64_t>(functions_per_direction(job.kernel, Form::auto_));
    config.seeds = {job.seed};
    return config;
}

Outcome run_job(const Job& job, const Dataset& data, const Matrix<double>& exact, const Exec& exec) {
    const auto config = config_of(job);
    const auto model = fit_classifier(ridge_fit(config, data, job.seed), data.train.x.view(), data.train.y,
                                      data.classes, exec);
    return {.acc = measure_accuracy(model, data, exec),
            .err = measure_gram_error(config, data, exact, job.seed, exec)};
}

// Finished runs, appended as they end. A line cut short by a kill is dropped: that run is repeated.
class Records {
public:
    explicit Records(const std::filesystem::path& path) : path_(path) {
        if (path.empty()) return;
        read();
        out_.open(path, std::ios::app);
        if (!out_) fail(ErrorCode::io, fmt::format("{}: cannot be written", path.string()));
        if (torn_) out_ << '\n';
    }
    const Outcomes& done() const { return done_; }
    void add(const Job& job, const Outcome& outcome) {
        done_[job] = outcome;
        if (path_.empty()) return;
        nlohmann::ordered_json j = {{"schema", kSchema},
                                    {"dataset", job.dataset},
                                    {"kernel", to_string(job.kernel)},
                                    {"sampler", to_string(job.sampler)},
                                    {"m", job.m},
                                    {"seed", job.seed},
                                    {"acc", outcome.acc},
                                    {"err", outcome.err}};
        out_ << j.dump() << std::endl;
        if (!out_) fail(ErrorCode::io, fmt::format("{}: write failed", path_.string()));
    }

private:
    void read() {
        std::ifstream in(path_);
        for (std::string line; std::getline(in, line);) {
            torn_ = in.eof();
            const auto j = nlohmann::json::parse(line, nullptr, false);
            if (line.empty() || j.is_discarded()) continue;
            if (j.value("schema", "") != kSchema) {
                fail(ErrorCode::bad_data,
                     fmt::format("{}: holds records of another kind; name another file", path_.string()));
            }
            const Job job{.dataset = j.at("dataset"),
                          .kernel = parse_enum<Kernel>(j.at("kernel").get<std::string>()),
                          .sampler = parse_enum<Sampler>(j.at("sampler").get<std::string>()),
                          .m = j.at("m"),
                          .seed = j.at("seed")};
            done_[job] = {.acc = j.at("acc"), .err = j.at("err")};
        }
    }

    std::filesystem::path path_;
    std::ofstream out_;
    Outcomes done_;
    bool torn_ = false;
};

// Runs of one data set with one split.
void run_group(const std::vector<Job>& jobs, const ValidateConfig& config, const Exec& exec, Records& records,
               Progress& progress, std::size_t& finished) {
    const bool random = has_random_split(source_of(jobs.front().dataset));
    const Dataset data = load_dataset(source_of(jobs.front().dataset),
                                      {.protocol = Protocol::measured,
                                       .data_dir = config.data_dir,
                                       .split_seed = random ? jobs.front().seed : 0},
                                      {.threads = exec.threads, .log = exec.log, .cancel = exec.cancel});
    std::map<Kernel, Matrix<double>> exact;
    const Exec quiet{.threads = exec.threads, .cancel = exec.cancel};
    for (const auto& job : jobs) {
        if (!exact.contains(job.kernel)) exact[job.kernel] = reference_gram(config_of(job), data, quiet);
    }
    std::mutex mutex;
    const Exec one{.threads = 1, .cancel = exec.cancel};
    parallel_for(quiet, jobs.size(), [&](std::size_t i) {
        const auto outcome = run_job(jobs[i], data, exact.at(jobs[i].kernel), one);
        const std::scoped_lock lock(mutex);
        records.add(jobs[i], outcome);
        progress.update(++finished);
    });
}

std::vector<Job> jobs_of(const std::vector<Cell>& cells, const std::vector<std::uint64_t>& seeds) {
    std::vector<Job> jobs;
    for (const auto& cell : cells) {
        for (const auto seed : seeds) jobs.push_back({cell.dataset, cell.kernel, cell.sampler, cell.m, seed});
    }
    std::sort(jobs.begin(), jobs.end());
    jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
    return jobs;
}

// Largest first within a group, so that all cores end together.
std::map<std::pair<std::string, std::uint64_t>, std::vector<Job>> group_jobs(std::vector<Job> jobs) {
    std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.m > b.m; });
    std::map<std::pair<std::string, std::uint64_t>, std::vector<Job>> groups;
    for (const auto& job : jobs) {
        const auto source = source_of(job.dataset);
        groups[{source, has_random_split(source) ? job.seed : 0}].push_back(job);
    }
    return groups;
}

double parse_value(const std::string& text, const std::string& place) {
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
        fail(ErrorCode::bad_data, fmt::format("{}: '{}' is not a number", place, text));
    }
    return value;
}

}  // namespace

double Cell::deviation() const {
    const double difference = ours.mean - published.mean;
    const double error = std::hypot(standard_error(ours), standard_error(published));
    if (error > 0.0) return difference / error;
    return difference == 0.0 ? 0.0 : std::copysign(INFINITY, difference);
}

std::string Cell::reason() const {
    const double runs = ours.std > 0.0 ? std::abs(ours.mean - published.mean) / ours.std : INFINITY;
    if (random_split) {
        return fmt::format(
            "one unknown split there; the difference is {:.1f} deviations of our runs, each with its own "
            "split",
            runs);
    }
    return fmt::format("same split: chance or a real difference ({:.1f} deviations of our runs)", runs);
}

bool Cell::agrees() const {
    return std::abs(deviation()) <= 3.0;
}

std::vector<Cell> read_published(const std::filesystem::path& path) {
    std::ifstream in(path);
    std::string line;
    if (!std::getline(in, line)) fail(ErrorCode::io, fmt::format("{}: cannot be read", path.string()));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line != kHeader)
        fail(ErrorCode::bad_data, fmt::format("{}: line 1: the header must be {}", path.string(), kHeader));
    using Key = std::tuple<std::string, std::string, std::string, std::string, std::string>;
    std::map<Key, std::size_t> position;
    std::vector<Cell> cells;
    std::vector<std::vector<double>> values;
    for (std::size_t number = 2; std::getline(in, line); ++number) {
        const auto place = fmt::format("{}: line {}", path.string(), number);
        const auto f = split_csv(line);
        if (f.size() != 10) fail(ErrorCode::bad_data, fmt::format("{}: {} fields, not 10", place, f.size()));
        // Attention and chip rows are other experiments' business.
        if (f[7] != "fp32" || f[0] == "attention") continue;
        const auto [it, fresh] = position.try_emplace(Key{f[0], f[1], f[2], f[5], f[8]}, cells.size());
        if (fresh) {
            cells.push_back({.dataset = f[0],
                             .kernel = parse_enum<Kernel>(f[1]),
                             .sampler = parse_enum<Sampler>(f[2]),
                             .log_ratio = static_cast<std::int64_t>(parse_value(f[3], place)),
                             .m = static_cast<std::int64_t>(parse_value(f[5], place)),
                             .metric = parse_enum<Metric>(f[8]),
                             .random_split = has_random_split(source_of(f[0]))});
            values.emplace_back();
        }
        values[it->second].push_back(parse_value(f[9], place));
    }
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i].published = summarize(std::move(values[i]));
    return cells;
}

std::vector<Cell> validate_fp32(const ValidateConfig& config, const Exec& exec) {
    auto cells = read_published(config.measured);
    if (!config.datasets.empty()) {
        std::erase_if(cells, [&](const Cell& c) {
            return std::ranges::find(config.datasets, c.dataset) == config.datasets.end();
        });
    }
    if (cells.empty()) fail(ErrorCode::bad_config, "none of the named data sets has published FP32 results");
    Records records(config.records);
    const auto all = jobs_of(cells, config.seeds);
    std::vector<Job> missing;
    std::ranges::copy_if(all, std::back_inserter(missing),
                         [&](const Job& j) { return !records.done().contains(j); });
    std::size_t finished = all.size() - missing.size();
    {
        Progress progress(exec, "validate", all.size(), finished);
        for (const auto& [key, jobs] : group_jobs(missing))
            run_group(jobs, config, exec, records, progress, finished);
    }
    for (auto& cell : cells) {
        std::vector<double> values;
        for (const auto seed : config.seeds) {
            const auto& o = records.done().at({cell.dataset, cell.kernel, cell.sampler, cell.m, seed});
            values.push_back(cell.metric == Metric::acc ? o.acc : o.err);
        }
        cell.ours = summarize(std::move(values));
    }
    return cells;
}

}  // namespace imka
