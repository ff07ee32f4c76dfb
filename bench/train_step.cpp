// Times training steps of a recipe on random documents: train_step RECIPE [STEPS [KEY=VALUE ...]]. Prints one
// line of JSON. Documents have (nearly) the full length of the task, so no time is saved on padding.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "imka/base/random.hpp"
#include "imka/train/torch/steps.hpp"

namespace {

using namespace imka;

LraData random_data(const TrainRecipe& recipe) {
    const auto& info = lra_task(recipe.task);
    const auto documents = static_cast<std::size_t>(recipe.train.batch * info.documents * 2);
    LraData data{.task = recipe.task, .origin = "random"};
    data.tokens = Matrix<std::uint8_t>(documents, static_cast<std::size_t>(info.length));
    std::uint64_t i = 0;
    for (auto& t : data.tokens.values())
        t = static_cast<std::uint8_t>(random_bits(1, Stream::test, i++) %
                                      static_cast<std::uint32_t>(info.pixels ? 256 : info.symbols));
    for (std::size_t d = 0; d < documents; ++d) {
        const bool shorter = !info.pixels && d % 2 == 1;
        data.lengths.push_back(static_cast<std::uint32_t>(info.length) - (shorter ? 1 : 0));
        const auto n = static_cast<std::uint32_t>(d);
        data.examples.push_back(
            {.first = n,
             .second = static_cast<std::uint32_t>(documents) - 1 - n,
             .label = static_cast<std::uint8_t>(d % static_cast<std::size_t>(info.classes))});
    }
    return data;
}

void run(const std::string& name, std::int64_t steps, const std::vector<std::string>& settings) {
    auto recipe = load_recipe(name);
    for (const auto& text : settings) {
        const auto [key, value] = parse_assignment(text, "setting");
        set_field(fields(recipe), key, value);
    }
    validate(recipe);
    at::globalContext().setAllowTF32CuBLAS(recipe.train.precision != TrainPrecision::fp32);
    const auto device =
        torch::cuda::is_available() ? torch::Device(torch::kCUDA, 0) : torch::Device(torch::kCPU);
    TrainingSteps training(recipe, initial_performer(recipe.model, name, 0), random_data(recipe), device);
    constexpr std::int64_t kWarmUp = 20;
    for (std::int64_t i = 0; i < kWarmUp; ++i) training.take(i);
    training.history();
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < steps; ++i) training.take(kWarmUp + i);
    const double queued = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto losses = training.history();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto n = static_cast<double>(steps);
    std::printf(
        "{\"recipe\":\"%s\",\"device\":\"%s\",\"batch\":%ld,\"tokens\":%ld,\"steps\":%ld,"
        "\"ms_per_step\":%.4f,\"host_ms_per_step\":%.4f,\"loss\":%.4f}\n",
        name.c_str(), device_name(device).c_str(), static_cast<long>(recipe.train.batch),
        static_cast<long>(recipe.model.length * recipe.model.documents), static_cast<long>(steps),
        1e3 * seconds / n, 1e3 * queued / n,
        static_cast<double>(
            losses(static_cast<std::size_t>((kWarmUp + steps - 1) % TrainingSteps::kHistory), 0)));
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) {
        std::fprintf(stderr, "usage: train_step RECIPE [STEPS [KEY=VALUE ...]]\n");
        return 2;
    }
    try {
        run(arguments[1], count > 2 ? std::atol(arguments[2]) : 300,
            {arguments + std::min(count, 3), arguments + count});
    } catch (const std::exception& e) {
        std::fprintf(stderr, "train_step: %s\n", e.what());
        return 1;
    }
    return 0;
}
