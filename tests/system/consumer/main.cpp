// Uses the installed library as a stranger would: random directions, a kernel, an error.
#include <imka/base/config.hpp>
#include <imka/base/error.hpp>
#include <imka/base/random.hpp>
#include <imka/base/sha256.hpp>
#include <imka/base/version.hpp>
#include <imka/io/settings.hpp>
#include <imka/kernel/kernel.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
    std::vector<float> g(4);
    imka::fill_normal(1, imka::Stream::test, 0, g);
    bool good = g[2] == imka::normal(1, imka::Stream::test, 2);

    double alpha = 0.5;
    const imka::Fields fields = {imka::field("alpha", alpha, {.help = "penalty", .min = 0.0})};
    imka::load_yaml_text("alpha: 2\n", "text", fields);
    good = good && alpha == 2.0 && imka::to_json(fields) == R"({"alpha": 2.0})";
    good = good && imka::sha256_hex("abc").size() == 64;
    try {
        imka::parse_enum<imka::Kernel>("triangle");
        good = false;
    } catch (const imka::Error& e) {
        good = good && e.code() == imka::ErrorCode::bad_config;
    }
    std::printf("imka %s: %s\n", imka::build_info().version.data(), good ? "ok" : "wrong");
    return good ? 0 : 1;
}
