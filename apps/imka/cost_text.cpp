#include "cost_text.hpp"

#include <fmt/format.h>

namespace imka::app {

Json value_json(const CostValue& v) {
    return {{"value", v.value}, {"low", v.low}, {"high", v.high}};
}

Json value_json(const std::optional<CostValue>& v) {
    return v ? value_json(*v) : Json();
}

std::string value_text(const CostValue& v, double unit) {
    return fmt::format("{:.4g} ({:.3g} to {:.3g})", v.value / unit, v.low / unit, v.high / unit);
}

std::string value_text(const std::optional<CostValue>& v, double unit) {
    return v ? value_text(*v, unit) : "unknown";
}

Json parameters_json(const std::vector<CostParameter>& list) {
    Json rows = Json::array();
    for (const auto& p : list)
        rows.push_back({{"parameter", p.name},
                        {"value", p.value},
                        {"low", p.low},
                        {"high", p.high},
                        {"unit", p.unit},
                        {"source", p.source}});
    return rows;
}

std::string parameters_text(const std::vector<CostParameter>& list) {
    TextTable table = {{"parameter", "value", "low", "high", "unit", "source"}};
    for (const auto& p : list)
        table.push_back({p.name, fmt::format("{:g}", p.value), fmt::format("{:g}", p.low),
                         fmt::format("{:g}", p.high), p.unit, p.source});
    return format_table(table);
}

}  // namespace imka::app
