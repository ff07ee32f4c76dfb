// Kernelised attention of one sequence with four heads, compared with exact attention, and the same one token
// at a time.
#include <imka/imka.hpp>

#include <cmath>
#include <cstdio>

int main() {
    using namespace imka;
    const HeadsShape shape{.heads = 4, .length = 1000, .size = 32};
    const auto random = [&](std::uint64_t seed) {
        Matrix<float> x(shape.heads * shape.length, shape.size);
        for (std::size_t i = 0; i < x.values().size(); ++i)
            x.values()[i] = static_cast<float>(0.5 * normal(seed, Stream::test, i));
        return x;
    };
    const auto q = random(1);
    const auto k = random(2);
    const auto v = random(3);
    const AttentionInputs inputs{heads_first(q.data(), shape), heads_first(k.data(), shape),
                                 heads_first(v.data(), shape)};

    const AttentionConfig config{.norms = Norms::sqrt, .n_directions = 256};
    const KernelAttention attention(config, sample(omega_recipe(config, 32, {.seed = 0})));
    Matrix<float> exact(q.rows(), q.cols());
    Matrix<float> kernelised(q.rows(), q.cols());
    exact_attention(inputs, {}, {}, heads_first(exact.data(), shape));
    attention.run(inputs, {}, {}, heads_first(kernelised.data(), shape));
    double error = 0.0;
    double norm = 0.0;
    for (std::size_t i = 0; i < exact.values().size(); ++i) {
        error += std::pow(kernelised.values()[i] - exact.values()[i], 2);
        norm += std::pow(exact.values()[i], 2);
    }
    std::printf("relative error of the outputs with %zu features: %.3f\n", attention.features(),
                std::sqrt(error / norm));

    // Generation: the state does not grow.
    AttentionState state(attention, {.heads = 4, .key_heads = 4, .value_size = 32});
    Matrix<float> token(4, 32);
    Matrix<float> out(4, 32);
    for (int t = 0; t < 10; ++t) state.append(token, token, token, out);
    std::printf("%llu tokens, %zu bytes of state\n", static_cast<unsigned long long>(state.tokens()),
                state.bytes());
    return error < norm ? 0 : 1;
}
