#include "imka/chip/driver.hpp"

#include <fmt/format.h>

#include <cmath>

#include "imka/base/error.hpp"

namespace imka {

Products execute(ChipDriver& driver, std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids,
                 const Exec& exec) {
    check_call(driver, matrix, x);
    Products out{.y = {x.rows(), driver.shape(matrix).outputs}};
    out.trace = driver.multiply(matrix, x, ids, exec, out.y.view());
    return out;
}

void check_call(const ChipDriver& driver, std::uint32_t matrix, MatrixView<const float> x) {
    if (matrix >= driver.matrices())
        fail(ErrorCode::bad_usage, fmt::format("no matrix {}; the chip holds {}", matrix, driver.matrices()));
    const auto inputs = driver.shape(matrix).inputs;
    if (x.cols() != inputs)
        fail(ErrorCode::bad_data,
             fmt::format("inputs of length {}; the chip holds a matrix of {} inputs", x.cols(), inputs));
    for (std::size_t v = 0; v < x.rows(); ++v) {
        for (std::size_t i = 0; i < x.cols(); ++i) {
            if (!std::isfinite(x(v, i)))
                fail(ErrorCode::bad_data,
                     fmt::format("input {} of row {} is {}; inputs must be finite", i, v, x(v, i)));
        }
    }
}

}  // namespace imka
