// Values with intervals and parameters of the cost model, as JSON and as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app.hpp"
#include "imka/deploy/mapping_cost.hpp"

namespace imka::app {

Json value_json(const CostValue& v);
Json value_json(const std::optional<CostValue>& v);  // none: null

// "1.2e-05 (1e-06 to 0.0001)" in the given unit.
std::string value_text(const CostValue& v, double unit);
std::string value_text(const std::optional<CostValue>& v, double unit);  // none: "unknown"

Json parameters_json(const std::vector<CostParameter>& list);
// A table with value, interval, unit and source.
std::string parameters_text(const std::vector<CostParameter>& list);

}  // namespace imka::app
