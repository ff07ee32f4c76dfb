// Voltage lost along the wire of a column, as a correction of the column's charge (the polynomial of IBM
// aihwkit's tile model). a = n R sum_i g_i d_i with n rows, wire resistance R between two cells,
// conductance g and duration d in full pulses. The charge loses the share c = a (0.05 a² - 0.2 a + 0.5) of
// sum_i g_i d_i (1 - (1 - i/n)²), where i is the cell's distance from the converter.
#pragma once

#include <cstddef>

namespace imka {

struct IrDropConfig {
    double scale = 0.0;      // multiplies the loss; 0: none, 1: the formula; >= 0
    double wire_ohm = 0.35;  // R; >= 0
};

// 1 - (1 - i/n)² of a cell. Converters of even columns are before row 0, of odd columns after the last
// row.
double ir_drop_weight(std::size_t row, std::size_t col, std::size_t rows);

// Sums over the cells of a column that are read together, in uS.
struct ColumnCurrent {
    double sum = 0.0;       // of +-g d: the converted charge
    double absolute = 0.0;  // of g d
    double weighted = 0.0;  // of +-g d ir_drop_weight
};
// `sum` minus the loss.
double with_ir_drop(const IrDropConfig& config, const ColumnCurrent& current, std::size_t rows);

}  // namespace imka
