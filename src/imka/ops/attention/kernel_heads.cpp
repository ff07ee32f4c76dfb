#include "imka/ops/attention/kernel_heads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"

namespace imka::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kBlocksPerTask = 8;
// Partial sums per head: at most this many, so that memory does not grow with the number of keys.
constexpr std::size_t kMostParts = 16;
// Parts of a causal sequence over all heads: enough for many cores even with few heads.
constexpr std::size_t kCausalParts = 8;
// Beyond this difference of exponents within a causal block, features of its first keys would be lost.
constexpr double kMostSpread = 60.0;

std::size_t divide_up(std::size_t a, std::size_t b) {
    return (a + b - 1) / b;
}

// Calls body(part) for parts of `rows` rows.
template <class Body>
void for_blocks(const HeadRange& range, std::size_t rows, const Body& body) {
    for (std::size_t r = range.begin; r < range.end; r += rows)
        body(HeadRange{range.head, r, std::min(range.end, r + rows)});
}

// wrong: index of the failing query in a block of `count` queries; `count` if there is none.
void check_normaliser(std::size_t wrong, std::size_t count, const HeadRange& range) {
    if (wrong != count) fail_normaliser(range.head, range.begin + wrong);
}

// Processes ranges of one sequence. Holds scratch memory: one per thread.
class BlockWorker {
public:
    explicit BlockWorker(const HeadRule& rule) : rule_(rule) {}

    void add_keys(const HeadSequence& s, const HeadRange& range, KeySums& sums) {
        for_blocks(range, kAttentionRows, [&](const HeadRange& block) {
            make_keys(s, block);
            sums.add(keys_);
        });
    }

    void attend(const HeadSequence& s, const HeadRange& range, const PreparedKeys& keys) {
        for_blocks(range, kAttentionRows, [&](const HeadRange& block) {
            const auto out = s.source->outputs(block);
            make_query_block(rule_, s.source->queries(block, query_projections_), queries_);
            check_normaliser(output_.attend(queries_, keys, out), out.rows(), block);
        });
    }

    // All heads of queries that share the key head range.head. sums: those of the earlier keys.
    void attend_causal(const HeadSequence& s, const HeadRange& range, KeySums sums) {
        const std::size_t group = s.heads / s.key_heads;
        for_blocks(range, kCausalRows, [&](const HeadRange& block) {
            make_keys(s, block);
            earlier_.prepare_prefix(sums);
            const bool apart = spread(sums) > kMostSpread;
            for (std::size_t head = range.head * group; head < (range.head + 1) * group; ++head) {
                const HeadRange here{head, block.begin, block.end};
                apart ? attend_one_by_one(s, here, sums) : attend_block(s, here);
            }
            sums.add(keys_);
        });
    }

private:
    static std::span<const std::uint8_t> mask_of(const HeadSequence& s, const HeadRange& range) {
        return s.key_mask.empty() ? s.key_mask : s.key_mask.subspan(range.begin, range.end - range.begin);
    }

    void make_keys(const HeadSequence& s, const HeadRange& block) {
        make_key_block(rule_, s.source->keys(block, key_projections_), s.source->values(block),
                       mask_of(s, block), keys_);
    }

    void attend_block(const HeadSequence& s, const HeadRange& block) {
        const auto out = s.source->outputs(block);
        make_query_block(rule_, s.source->queries(block, query_projections_), queries_);
        check_normaliser(output_.attend_causal(rule_, queries_, keys_, earlier_, out), out.rows(), block);
    }

    // Largest exponent of the block minus that of the earlier keys, or of its first used key if there are
    // none.
    double spread(const KeySums& sums) const {
        double first = sums.keys() > 0 ? earlier_.exponent() : -kInfinity;
        for (std::size_t j = 0; j < keys_.values.rows() && first == -kInfinity; ++j) first = keys_.maxima[j];
        return first == -kInfinity ? 0.0 : keys_.exponent - first;
    }

    void attend_one_by_one(const HeadSequence& s, const HeadRange& range, KeySums sums) {
        const HeadRange key_range{range.head / (s.heads / s.key_heads), range.begin, range.end};
        const auto keys = s.source->keys(key_range, key_projections_);
        const auto queries = s.source->queries(range, query_projections_);
        const auto values = s.source->values(key_range);
        const auto out = s.source->outputs(range);
        const auto mask = mask_of(s, range);
        const auto one = [](const HeadRows& rows, std::size_t r) -> HeadRows {
            return {rows.x.slice_rows(r, 1), rows.u.rows() > 0 ? rows.u.slice_rows(r, 1) : rows.u};
        };
        for (std::size_t r = 0; r < out.rows(); ++r) {
            if (mask.empty() || mask[r] != 0) sums.add_key(rule_, one(keys, r), values.row(r));
            if (!sums.attend(rule_, one(queries, r), out.row(r)))
                fail_normaliser(range.head, range.begin + r);
        }
    }

    const HeadRule& rule_;
    KeyBlock keys_;
    QueryBlock queries_;
    HeadOutput output_;
    PreparedKeys earlier_;
    Matrix<float> key_projections_;
    Matrix<float> query_projections_;
};

// One head of keys of one sequence.
struct HeadJob {
    const HeadSequence* sequence;
    std::size_t head;
    std::size_t part_rows = 0;  // keys per partial sum
    std::vector<KeySums> parts = {};
    PreparedKeys keys = {};

    HeadRange part(std::size_t p) const {
        return {head, p * part_rows, std::min(sequence->keys, (p + 1) * part_rows)};
    }
};

struct Task {
    std::size_t job;
    std::size_t part;
};

class HeadsRun {
public:
    HeadsRun(std::span<const HeadSequence> sequences, const KernelHeadsOptions& options, const Exec& exec)
        : rule_(options.rule), exec_(exec) {
        for (const auto& s : sequences) {
            for (std::size_t h = 0; h < s.key_heads; ++h) jobs_.push_back({.sequence = &s, .head = h});
        }
    }

    void run_all_keys() {
        sum_parts(divide(kAttentionRows, [](const HeadSequence&) { return kMostParts; }));
        parallel_for(exec_, jobs_.size(), [&](std::size_t j) {
            auto& parts = jobs_[j].parts;
            for (std::size_t p = 1; p < parts.size(); ++p) parts[0].add(parts[p]);
            jobs_[j].keys.prepare(parts.empty() ? KeySums(rule_.features, jobs_[j].sequence->value_size)
                                                : parts[0]);
            parts.clear();
        });
        attend_all();
    }

    // Sums all parts of each job except the last, then everything before each part.
    void run_causal() {
        const auto tasks = divide(kCausalRows, [](const HeadSequence& s) {
            return std::max<std::size_t>(1, kCausalParts / s.key_heads);
        });
        std::vector<Task> sums;
        std::ranges::copy_if(tasks, std::back_inserter(sums),
                             [&](const Task& t) { return t.part + 1 < jobs_[t.job].parts.size(); });
        sum_parts(sums);
        for (auto& job : jobs_) {
            KeySums before(rule_.features, job.sequence->value_size);
            for (auto& part : job.parts) {
                auto next = before;
                next.add(part);
                part = std::exchange(before, std::move(next));
            }
        }
        for_tasks(tasks.size(), [&](std::size_t t, BlockWorker& worker) {
            auto& job = jobs_[tasks[t].job];
            const std::size_t part = tasks[t].part;
            worker.attend_causal(*job.sequence, job.part(part), std::move(job.parts[part]));
        });
    }

private:
    // Calls body(t, worker) for every task t.
    template <class Body>
    void for_tasks(std::size_t count, const Body& body) {
        parallel_for_workers(exec_, count, [&]() -> Worker {
            return [&body, worker = BlockWorker(rule_)](std::size_t t) mutable { body(t, worker); };
        });
    }

    // Divides the keys of every job into at most most_parts(sequence) ranges of whole blocks.
    template <class MostParts>
    std::vector<Task> divide(std::size_t block, const MostParts& most_parts) {
        std::vector<Task> tasks;
        for (std::size_t j = 0; j < jobs_.size(); ++j) {
            const auto& s = *jobs_[j].sequence;
            const std::size_t blocks = divide_up(s.keys, block);
            const std::size_t parts = std::clamp<std::size_t>(blocks / kBlocksPerTask, 1, most_parts(s));
            jobs_[j].part_rows = std::max<std::size_t>(1, divide_up(blocks, parts)) * block;
            jobs_[j].parts.assign(divide_up(s.keys, jobs_[j].part_rows), {rule_.features, s.value_size});
            for (std::size_t p = 0; p < jobs_[j].parts.size(); ++p) tasks.push_back({j, p});
        }
        return tasks;
    }

    void sum_parts(std::span<const Task> tasks) {
        for_tasks(tasks.size(), [&](std::size_t t, BlockWorker& worker) {
            auto& job = jobs_[tasks[t].job];
            worker.add_keys(*job.sequence, job.part(tasks[t].part), job.parts[tasks[t].part]);
        });
    }

    void attend_all() {
        struct Queries {
            const HeadJob* job;
            HeadRange range;
        };
        std::vector<Queries> list;
        for (const auto& job : jobs_) {
            const auto& s = *job.sequence;
            const std::size_t group = s.heads / s.key_heads;
            for (std::size_t h = job.head * group; h < (job.head + 1) * group; ++h)
                for_blocks({h, 0, s.queries}, kBlocksPerTask * kAttentionRows, [&](const HeadRange& range) {
                    list.push_back({&job, range});
                });
        }
        for_tasks(list.size(), [&](std::size_t t, BlockWorker& worker) {
            worker.attend(*list[t].job->sequence, list[t].range, list[t].job->keys);
        });
    }

    HeadRule rule_;
    const Exec& exec_;
    std::vector<HeadJob> jobs_;
};

}  // namespace

void fail_normaliser(std::size_t head, std::size_t query) {
    fail(ErrorCode::numeric,
         fmt::format(
             "attention: the normaliser of query {} of head {} is 0 or not finite: no key has a feature in "
             "common with it; use kernel_epsilon > 0 or smaller inputs",
             query, head));
}

void kernel_heads(std::span<const HeadSequence> sequences, const KernelHeadsOptions& options,
                  const Exec& exec) {
    HeadsRun run(sequences, options, exec);
    options.causal ? run.run_causal() : run.run_all_keys();
}

}  // namespace imka::ops
