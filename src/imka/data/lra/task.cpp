#include "imka/data/lra/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "imka/base/error.hpp"
#include "imka/base/parallel.hpp"
#include "imka/base/random.hpp"
#include "imka/data/lra/files.hpp"
#include "imka/data/lra/generate.hpp"

namespace imka {
namespace {

constexpr std::array<LraTaskInfo, 6> kTasks = {{
    {LraTask::listops, "ListOps, up to 2,000 tokens", false, 15, 2000, 1, 10, true},
    {LraTask::pathfinder32, "Pathfinder, 32 x 32 pixels, contours of 14 segments", true, 256, 1024, 1, 2,
     true},
    {LraTask::imdb, "IMDb reviews, 4,000 bytes", false, 256, 4000, 1, 2, false},
    {LraTask::cifar10, "gray CIFAR-10, 1,024 pixels", true, 256, 1024, 1, 10, false},
    {LraTask::retrieval, "citations between papers, 2 x 4,000 bytes", false, 256, 4000, 2, 2, false},
    {LraTask::tiny, "most frequent of four symbols, up to 64 tokens", false, 4, 64, 1, 4, true},
}};

struct TaskGenerator {
    std::array<std::size_t, 3> sizes;  // of the parts
    GeneratedExample (*example)(ExampleRandom& random, std::span<std::uint8_t> tokens);
};

TaskGenerator generator_of(LraTask task) {
    if (task == LraTask::listops) return {{96'000, 2'000, 2'000}, generate_listops};
    if (task == LraTask::pathfinder32) return {{160'000, 20'000, 20'000}, generate_pathfinder};
    return {{2'000, 500, 500}, generate_tiny};
}

}  // namespace

std::size_t generated_examples(LraTask task, LraPart part) {
    return generator_of(task).sizes.at(static_cast<std::size_t>(part));
}

namespace {

LraData generate(const LraTaskInfo& info, LraPart part, const LraSource& source, const Exec& exec) {
    const auto generator = generator_of(info.task);
    const auto count = source.examples.value_or(generated_examples(info.task, part));
    const auto length = static_cast<std::size_t>(info.length);
    if (count > std::numeric_limits<std::uint32_t>::max())
        fail(ErrorCode::bad_config, fmt::format("a part has at most 2^32 - 1 examples, not {}", count));
    check_fits_memory(static_cast<double>(count), static_cast<double>(length), 1, "the examples");
    LraData data{.task = info.task, .origin = fmt::format("generated with seed {}", source.seed)};
    data.tokens = Matrix<std::uint8_t>(count, length);
    data.lengths.resize(count);
    data.examples.resize(count);
    Progress progress(exec, fmt::format("generating {}", to_string(info.task)), count);
    constexpr std::size_t kBlock = 1024;
    for (std::size_t first = 0; first < count; first += kBlock) {
        parallel_for(exec, std::min(kBlock, count - first), [&](std::size_t k) {
            const auto i = static_cast<std::uint32_t>(first + k);
            ExampleRandom random({.seed = source.seed, .task = info.task, .part = part, .example = i});
            const auto example = generator.example(random, data.tokens.row(i));
            data.lengths[i] = example.length;
            data.examples[i] = {.first = i, .second = i, .label = example.label};
        });
        progress.update(std::min(first + kBlock, count));
    }
    return data;
}

LraData load_files(LraTask task, LraPart part, const LraSource& source, const Exec& exec) {
    if (task == LraTask::imdb) return load_imdb(part, source, exec);
    if (task == LraTask::cifar10) return load_cifar10(part, source, exec);
    return load_retrieval(part, source, exec);
}

}  // namespace

const LraTaskInfo& lra_task(LraTask task) {
    return kTasks.at(static_cast<std::size_t>(task));
}

std::span<const LraTaskInfo> lra_tasks() {
    return kTasks;
}

LraData load_lra(LraTask task, LraPart part, const LraSource& source, const Exec& exec) {
    if (source.examples == 0U) fail(ErrorCode::bad_config, "expected at least 1 example, not 0");
    const auto& info = lra_task(task);
    if (info.generated) return generate(info, part, source, exec);
    auto data = load_files(task, part, source, exec);
    if (!source.examples) return data;
    const auto size = static_cast<std::uint32_t>(data.examples.size());
    if (*source.examples > size)
        fail(ErrorCode::bad_config, fmt::format("{}: part {} has {} examples, not {}", to_string(task),
                                                to_string(part), size, *source.examples));
    const auto order = permutation(source.seed, Stream::subsample, size);
    return chosen(data, std::span(order).first(*source.examples));
}

}  // namespace imka
