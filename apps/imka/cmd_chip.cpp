// imka chip: the emulated chip alone. Constants, error of products and its causes, programming, ageing,
// device models from measurements.
#include "app.hpp"
#include "chip/options.hpp"

namespace imka::app {

void add_chip(CLI::App& root, Context& context) {
    auto* chip =
        add_verb(root, "chip", "The emulated chip: constants, errors and their causes, programming, ageing",
                 {"imka chip info hermes", "imka chip explain --backend hermes --at 1h"});
    chip->require_subcommand(1);
    add_chip_info(*chip, context);
    add_chip_mvm(*chip, context);
    add_chip_program(*chip, context);
    add_chip_age(*chip, context);
    add_chip_explain(*chip, context);
    add_chip_fit(*chip, context);
    add_chip_signatures(*chip, context);
}

}  // namespace imka::app
