#include "imka/chip/converter/ir_drop.hpp"

namespace imka {

double ir_drop_weight(std::size_t row, std::size_t col, std::size_t rows) {
    const std::size_t distance = col % 2 == 0 ? row : rows - 1 - row;
    const double rest = 1.0 - static_cast<double>(distance) / static_cast<double>(rows);
    return 1.0 - rest * rest;
}

double with_ir_drop(const IrDropConfig& config, const ColumnCurrent& current, std::size_t rows) {
    const double a = static_cast<double>(rows) * config.wire_ohm * current.absolute * 1e-6;
    const double share = a * (0.05 * a * a - 0.2 * a + 0.5);
    return current.sum - config.scale * share * current.weighted;
}

}  // namespace imka
