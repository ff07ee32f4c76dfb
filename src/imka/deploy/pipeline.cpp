#include "imka/deploy/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "imka/base/error.hpp"

namespace imka {
namespace {

constexpr std::size_t kMostRows = std::size_t{1}
                                  << 31U;  // so that products of two numbers of rows fit 64 bits
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// A call of a listed matrix and the calls that it reads.
struct Call {
    std::uint32_t matrix = 0;
    std::vector<std::pair<std::size_t, Reads>> inputs;  // calls
};

std::string call_name(const ListedMatrix& m, std::size_t call) {
    return m.calls == 1 ? m.name : fmt::format("{}#{}", m.name, call);
}

// The calls of all matrices, numbered matrix by matrix.
class Calls {
public:
    explicit Calls(const MatrixList& list) : list_(list) {
        for (std::size_t m = 0; m < list.size(); ++m) {
            first_.push_back(count_);
            count_ += list[m].calls;
            if (count_ > kMostMatrices)
                fail(ErrorCode::bad_config,
                     fmt::format("matrix {}: more than {} calls up to this matrix, the limit of a schedule",
                                 in_quotes(list[m].name), kMostMatrices));
            matrices_.emplace(list[m].name, m);
        }
    }

    std::vector<Call> read() const {
        std::vector<Call> calls;
        for (std::uint32_t m = 0; m < list_.size(); ++m) {
            for (std::size_t c = 0; c < list_[m].calls; ++c) {
                Call call{.matrix = m, .inputs = {}};
                if (const auto sites = list_[m].sites.size(); sites == 0) {
                    if (!calls.empty()) call.inputs.emplace_back(calls.size() - 1, Reads::all);
                } else {
                    const auto& site = list_[m].sites[std::min(c, sites - 1)];
                    for (const auto& name : site.after) add(m, c, name, Reads::rows, call);
                    for (const auto& name : site.after_all) add(m, c, name, Reads::all, call);
                }
                calls.push_back(std::move(call));
            }
        }
        return calls;
    }

private:
    // validate(list) has checked the names.
    void add(std::size_t matrix, std::size_t call, const std::string& name, Reads reads, Call& out) const {
        const auto [other, site] = split_call_name(name);
        const auto m = matrices_.at(std::string(other));
        const auto calls = list_[m].calls;
        const bool same = calls == list_[matrix].calls;
        const std::size_t first = site ? *site : same ? call : 0;
        const std::size_t count = site || same ? 1 : calls;
        for (std::size_t c = first; c < first + count; ++c) out.inputs.emplace_back(first_[m] + c, reads);
    }

    const MatrixList& list_;
    std::vector<std::size_t> first_;
    std::map<std::string, std::size_t> matrices_;
    std::size_t count_ = 0;
};

// Sorts calls so that inputs come first; otherwise keeps the order of the list.
std::vector<std::size_t> sorted(const std::vector<Call>& calls, const MatrixList& list) {
    std::vector<std::vector<std::size_t>> readers(calls.size());
    std::vector<std::size_t> waits(calls.size());
    std::set<std::size_t> ready;
    for (std::size_t c = 0; c < calls.size(); ++c) {
        waits[c] = calls[c].inputs.size();
        for (const auto& [input, reads] : calls[c].inputs) readers[input].push_back(c);
        if (waits[c] == 0) ready.insert(c);
    }
    std::vector<std::size_t> order;
    while (!ready.empty()) {
        const auto c = *ready.begin();
        ready.erase(ready.begin());
        order.push_back(c);
        for (const auto reader : readers[c]) {
            if (--waits[reader] == 0) ready.insert(reader);
        }
    }
    if (order.size() < calls.size()) {
        const auto stuck = std::ranges::find_if(waits, [](std::size_t n) { return n > 0; }) - waits.begin();
        const auto& name = list[calls[static_cast<std::size_t>(stuck)].matrix].name;
        fail(ErrorCode::bad_config,
             fmt::format("matrix {}: 'after' leads back to the matrix itself", in_quotes(name)));
    }
    return order;
}

// Positions of steps among the products: the last product before a step and the first one after it.
struct Neighbours {
    std::vector<std::size_t> product;  // number of a product in order; kNone: digital
    std::vector<std::size_t> last_before;
    std::vector<std::size_t> first_behind;
    std::size_t products = 0;
};

Neighbours neighbours_of(const std::vector<PipelineStep>& steps) {
    Neighbours n;
    for (const auto& step : steps) {
        std::size_t last = kNone;
        for (const auto& input : step.inputs) {
            const auto p = n.product[input.step] != kNone ? n.product[input.step] : n.last_before[input.step];
            if (p != kNone) last = last == kNone ? p : std::max(last, p);
        }
        n.last_before.push_back(last);
        n.product.push_back(step.matrices.empty() ? kNone : n.products++);
    }
    n.first_behind.assign(steps.size(), kNone);
    for (std::size_t s = steps.size(); s-- > 0;) {
        const auto p = n.product[s] != kNone ? n.product[s] : n.first_behind[s];
        for (const auto& input : steps[s].inputs)
            n.first_behind[input.step] = std::min(n.first_behind[input.step], p);
    }
    return n;
}

// Whether every other product has to come either before or after product p. All products before p lead to p
// if none of them is first read after p; all products after p depend on p if none of them reads only from
// products before p.
std::vector<bool> cuts_of(const Neighbours& n) {
    std::vector<std::size_t> behind(n.products, kNone);
    std::vector<std::size_t> before(n.products, kNone);
    for (std::size_t s = 0; s < n.product.size(); ++s) {
        if (n.product[s] == kNone) continue;
        behind[n.product[s]] = n.first_behind[s];
        before[n.product[s]] = n.last_before[s];
    }
    std::vector<bool> cut(n.products, true);
    std::size_t furthest = 0;
    for (std::size_t p = 0; p < n.products; ++p) {
        if (p > 0) furthest = std::max(furthest, behind[p - 1]);
        if (furthest > p) cut[p] = false;
    }
    std::size_t nearest = kNone;
    for (std::size_t p = n.products; p-- > 0;) {
        if (p + 1 < n.products) nearest = std::min(nearest, before[p + 1] == kNone ? 0 : before[p + 1] + 1);
        if (nearest < p + 1) cut[p] = false;
    }
    return cut;
}

// The branch of every product: connected products between two cuts share a branch.
std::vector<std::size_t> branch_roots(const std::vector<PipelineStep>& steps, const Neighbours& n,
                                      const std::vector<bool>& cut) {
    std::vector<std::size_t> root(n.products);
    std::iota(root.begin(), root.end(), 0);
    const auto find = [&](std::size_t p) {
        while (root[p] != p) p = root[p] = root[root[p]];
        return p;
    };
    // The products that a step reads with no other product in between.
    std::vector<std::set<std::size_t>> sources(steps.size());
    for (std::size_t s = 0; s < steps.size(); ++s) {
        std::set<std::size_t> reached;
        for (const auto& input : steps[s].inputs) reached.merge(std::set(sources[input.step]));
        if (n.product[s] == kNone) {
            sources[s] = std::move(reached);
            continue;
        }
        const auto p = n.product[s];
        for (const auto q : reached) {
            if (!cut[p] && !cut[q]) root[std::max(find(p), find(q))] = std::min(find(p), find(q));
        }
        if (!cut[p]) sources[s] = {p};
    }
    for (std::size_t p = 0; p < n.products; ++p) root[p] = find(p);
    return root;
}

// Lines of at most 110 characters, broken before arrows.
std::string wrapped(const std::string& text, std::size_t indent) {
    constexpr std::size_t kWidth = 110;
    std::string out;
    std::string line(indent, ' ');
    for (std::size_t at = 0; at < text.size();) {
        const auto next = std::min(text.find(" -> ", at + 1), text.size());
        if (line.size() + next - at > kWidth && line.size() > indent) {
            out += line + "\n";
            line.assign(indent + 1, ' ');
        }
        line += text.substr(at, next - at);
        at = next;
    }
    return out + line + "\n";
}

// Writes pipelines as text.
class Writer {
public:
    explicit Writer(const Pipeline& pipeline) : steps_(pipeline.steps), chain_(pipeline.steps.size()) {
        for (std::size_t c = 0; c < pipeline.chains.size(); ++c) {
            for (const auto& branch : pipeline.chains[c].branches) {
                for (const auto s : branch) chain_[s] = c;
            }
        }
        for (std::size_t c = 0; c < pipeline.chains.size(); ++c)
            add(pipeline.chains[c].branches, fmt::format("{:3}  ", c + 1));
    }
    std::string text;

private:
    void add(const std::vector<std::vector<std::size_t>>& branches, const std::string& head) {
        if (branches.size() == 1) return add_branch(branches[0], head);
        text += fmt::format("{}{} branches\n", head, branches.size());
        for (const auto& branch : branches) add_branch(branch, std::string(head.size(), ' ') + "- ");
    }

    // A branch that forks is written like a pipeline.
    void add_branch(const std::vector<std::size_t>& branch, const std::string& head) {
        std::map<std::size_t, std::size_t> place;
        std::vector<PipelineStep> steps;
        for (const auto s : branch) {
            place.emplace(s, steps.size());
            PipelineStep step{.name = {}, .op = {}, .matrices = steps_[s].matrices};
            for (const auto& input : steps_[s].inputs) {
                if (const auto found = place.find(input.step); found != place.end())
                    step.inputs.push_back({found->second});
            }
            steps.push_back(std::move(step));
        }
        const auto chains = chains_of(steps);
        if (chains.size() == 1 && chains[0].branches.size() == 1) {
            auto line = wrapped(line_of(branch), head.size());
            text += line.replace(0, head.size(), head);
            return;
        }
        for (std::size_t c = 0; c < chains.size(); ++c) {
            auto inner = chains[c].branches;
            for (auto& list : inner) {
                for (auto& s : list) s = branch[s];
            }
            add(inner, c == 0 ? head : std::string(head.size(), ' '));
        }
    }

    // "fc1 [Add, Relu] -> fc2"; of a long branch only the beginning and the end.
    std::string line_of(const std::vector<std::size_t>& branch) const {
        constexpr std::size_t kMostSteps = 40;
        std::string line;
        bool open = false;  // a bracket
        for (std::size_t k = 0; k < branch.size(); ++k) {
            if (branch.size() > kMostSteps && k == kMostSteps / 2) {
                line += fmt::format("{} -> ({} steps)", open ? "]" : "", branch.size() - kMostSteps);
                open = false;
                k = branch.size() - kMostSteps / 2;
            }
            const auto& step = steps_[branch[k]];
            if (step.matrices.empty()) {
                line += fmt::format("{}{}{}",
                                    open           ? ", "
                                    : line.empty() ? "["
                                                   : " [",
                                    step.op, cached(branch[k]));
                open = true;
                continue;
            }
            line += fmt::format("{}{}{}{}", open ? "]" : "", line.empty() ? "" : " -> ", step.name,
                                cached(branch[k]));
            open = false;
        }
        return line + (open ? "]" : "");
    }

    std::string cached(std::size_t s) const {
        std::string out;
        for (const auto& input : steps_[s].inputs) {
            if (chain_[input.step] + 1 < chain_[s])
                out += fmt::format(" (cached {})", steps_[input.step].name);
        }
        return out;
    }

    const std::vector<PipelineStep>& steps_;
    std::vector<std::size_t> chain_;
};

}  // namespace

std::vector<Chain> chains_of(const std::vector<PipelineStep>& steps) {
    const auto n = neighbours_of(steps);
    const auto cut = cuts_of(n);
    const auto root = branch_roots(steps, n, cut);
    // Successive cuts are one chain, and so are the products between two of them.
    std::vector<std::size_t> chain(n.products);
    for (std::size_t p = 1; p < n.products; ++p) chain[p] = chain[p - 1] + (cut[p] == cut[p - 1] ? 0 : 1);
    std::vector<Chain> chains(n.products == 0 ? 1 : chain.back() + 1);
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> branches;  // chain and root to branch
    for (std::size_t s = 0; s < steps.size(); ++s) {
        auto p = n.product[s] != kNone ? n.product[s] : n.last_before[s];
        if (p == kNone) p = std::min(n.first_behind[s], n.products);  // digital steps at the beginning
        if (p >= n.products) p = 0;
        const auto c = n.products == 0 ? 0 : chain[p];
        const auto key = std::pair(c, n.products == 0 || cut[p] ? kNone : root[p]);
        const auto [found, added] = branches.try_emplace(key, chains[c].branches.size());
        if (added) chains[c].branches.emplace_back();
        chains[c].branches[found->second].push_back(s);
    }
    return chains;
}

Pipeline pipeline_of(const MatrixList& list) {
    validate(list);
    const auto calls = Calls(list).read();
    const auto order = sorted(calls, list);
    std::vector<std::size_t> place(calls.size());
    for (std::size_t k = 0; k < order.size(); ++k) place[order[k]] = k;
    std::vector<bool> read(calls.size());
    Pipeline pipeline;
    for (const auto c : order) {
        const auto& m = list[calls[c].matrix];
        if (m.vectors > kMostRows)
            fail(ErrorCode::bad_config, fmt::format("matrix {}: {} vectors; a schedule has at most {}",
                                                    in_quotes(m.name), m.vectors, kMostRows));
        PipelineStep step{.name = {}, .op = "MatMul", .matrices = {calls[c].matrix}, .rows = m.vectors};
        for (const auto& [input, reads] : calls[c].inputs) {
            step.inputs.push_back({place[input], reads});
            read[input] = true;
        }
        const auto rows = static_cast<double>(m.vectors);
        if (step.inputs.empty()) step.input_bytes = rows * static_cast<double>(m.inputs);
        step.output_bytes = rows * static_cast<double>(m.outputs);
        pipeline.steps.push_back(std::move(step));
    }
    std::size_t first = 0;
    for (const auto& m : list) {
        for (std::size_t c = 0; c < m.calls; ++c) pipeline.steps[place[first + c]].name = call_name(m, c);
        first += m.calls;
    }
    for (std::size_t c = 0; c < calls.size(); ++c) pipeline.steps[place[c]].is_output = !read[c];
    pipeline.chains = chains_of(pipeline.steps);
    return pipeline;
}

std::size_t needed_rows(const Pipeline& pipeline, const PipelineStep& step, const StepInput& input,
                        std::size_t rows) {
    const auto all = pipeline.steps[input.step].rows;
    if (rows == 0) return 0;
    if (input.reads == Reads::all) return all;
    return std::min(all, (rows * all + step.rows - 1) / step.rows + input.ahead);
}

std::string pipeline_text(const Pipeline& pipeline) {
    return Writer(pipeline).text;
}

Pipeline with_input_steps(Pipeline pipeline) {
    std::vector<PipelineStep> steps;
    for (const auto& input : pipeline.inputs)
        steps.push_back({.name = input.name,
                         .op = "Input",
                         .inputs = {},
                         .matrices = {},
                         .rows = input.rows,
                         .input_bytes = input.bytes,
                         .output_bytes = input.bytes});
    const auto count = steps.size();
    for (auto& step : pipeline.steps) {
        for (auto& input : step.inputs) input.step += count;
        step.inputs.insert(step.inputs.end(), step.network.begin(), step.network.end());
        if (!step.network.empty()) step.input_bytes = 0.0;
        step.network.clear();
        steps.push_back(std::move(step));
    }
    auto chains = chains_of(steps);
    return {.steps = std::move(steps), .chains = std::move(chains)};
}

DigitalWork digital_work(const Pipeline& pipeline) {
    DigitalWork sum;
    for (const auto& step : pipeline.steps) add_work(step.work, 1.0, sum);
    return sum;
}

std::vector<LinkBytes> link_bytes(const Pipeline& pipeline, const Mapping& mapping) {
    std::vector<std::set<std::size_t>> chips_of(mapping.matrices.size());
    for (const auto& r : mapping.regions) chips_of[r.matrix].insert(r.core / mapping.grid.cores);
    std::vector<std::set<std::size_t>> chips(pipeline.steps.size());
    std::vector<LinkBytes> bytes(pipeline.steps.size());
    for (std::size_t s = 0; s < pipeline.steps.size(); ++s) {
        const auto& step = pipeline.steps[s];
        for (const auto m : step.matrices) chips[s].insert(chips_of[m].begin(), chips_of[m].end());
        for (const auto& input : step.inputs) {
            const auto& from = chips[input.step];
            if (step.matrices.empty()) chips[s].insert(from.begin(), from.end());
            if (!step.matrices.empty() && !from.empty() && from != chips[s])
                bytes[input.step].after = pipeline.steps[input.step].output_bytes;
        }
        bytes[s].before = step.input_bytes;
        if (step.is_output) bytes[s].after = step.output_bytes;
    }
    return bytes;
}

double host_bytes(const Pipeline& pipeline, const Mapping& mapping) {
    double sum = 0.0;
    for (const auto& b : link_bytes(pipeline, mapping)) sum += b.before + b.after;
    return sum;
}

}  // namespace imka
