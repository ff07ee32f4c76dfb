// Interface between programs and whatever multiplies: an emulated chip, a recording, or hardware.
#pragma once

#include <cstdint>

#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/trace.hpp"
#include "imka/chip/region.hpp"

namespace imka {

struct MatrixShape {
    std::size_t inputs = 0;
    std::size_t outputs = 0;
    bool operator==(const MatrixShape&) const = default;
};

class ChipDriver {
public:
    virtual ~ChipDriver() = default;
    virtual std::size_t matrices() const = 0;
    virtual MatrixShape shape(std::uint32_t matrix) const = 0;
    // Row v of y: outputs of one matrix for row v of x, which is product ids.first + v. Returns the trace;
    // does not add it to exec.trace. Thread-safe. Error{bad_data} for inputs that are not finite or rows
    // of the wrong length.
    virtual Trace multiply(std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids,
                           const Exec& exec, MatrixView<float> y) = 0;
};

// The same, with newly allocated results.
struct Products {
    Matrix<float> y;
    Trace trace;
};
Products execute(ChipDriver& driver, std::uint32_t matrix, MatrixView<const float> x, const ProductIds& ids,
                 const Exec& exec);

// Error{bad_usage} if the driver has no such matrix, Error{bad_data} for inputs that do not fit it.
void check_call(const ChipDriver& driver, std::uint32_t matrix, MatrixView<const float> x);

}  // namespace imka
