// Uses the installed library from another project: features, a ridge classifier, a chip, an error.
#include <cmath>
#include <cstdio>
#include <imka/imka.hpp>

namespace {

bool features_approximate_the_kernel(const imka::Dataset& data) {
    const imka::FeatureMap map({.omega = {.gamma = 0.05, .sampler = imka::Sampler::orf, .d = 20, .m = 2000}});
    const auto x = data.test.x.view().slice_rows(0, 100);
    imka::Matrix<double> exact(x.rows(), x.rows());
    imka::exact_gram(imka::Kernel::rbf, 0.05, x, x, {}, exact);
    const auto z = map.transform(x, {});
    return imka::gram_error(exact, z, {}) < 0.1;
}

bool classifier_works_here_and_on_a_chip(const imka::Dataset& data) {
    const auto model = imka::fit_classifier({.recipe = {.omega = {.truncation = 3.0, .m = 200}}}, data);
    const auto chip = imka::on_chip(model, {.chip = imka::chip_preset("hermes")}, data.train.x);
    const double fp32 = imka::accuracy(imka::RidgePredictor(model), data.test);
    const double analog = imka::accuracy(chip, data.test);
    const auto cost = imka::product_cost(imka::chip_preset("hermes"), {.inputs = 20, .outputs = 200});
    std::printf("FP32 %.4f, chip %.4f, one product %.3g s\n", fp32, analog, cost.seconds);
    return fp32 > 0.95 && analog > 0.9 && fp32 != analog && cost.seconds > 0.0;
}

bool a_wrong_name_is_an_error() {
    try {
        (void)imka::load_dataset("nothing-of-this-name");
        return false;
    } catch (const imka::Error&) {
        return true;
    }
}

}  // namespace

int main() {
    const auto data = imka::load_dataset("ringnorm", {.train_rows = 1000, .test_rows = 1000});
    const bool good = features_approximate_the_kernel(data) && classifier_works_here_and_on_a_chip(data) &&
                      a_wrong_name_is_an_error();
    std::printf("imka %s: %s\n", imka::build_info().version.data(), good ? "ok" : "wrong");
    return good ? 0 : 1;
}
