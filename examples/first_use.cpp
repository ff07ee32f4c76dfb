// Classifies a generated problem with random features: in FP32, then with the projection on an emulated chip.
#include <cstdio>
#include <imka/imka.hpp>

int main() {
    const auto data = imka::load_dataset("ringnorm");
    const imka::OmegaRecipe omega = {.sampler = imka::Sampler::orf, .truncation = 3.0, .m = 320};
    const auto model = imka::fit_classifier({.recipe = {.omega = omega}}, data);
    const imka::RidgePredictor fp32(model);
    const auto chip = imka::on_chip(model, {.chip = imka::chip_preset("hermes")}, data.train.x);
    std::printf("FP32: %.2f %%\n", 100.0 * imka::accuracy(fp32, data.test));
    std::printf("chip: %.2f %%\n", 100.0 * imka::accuracy(chip, data.test));
}
