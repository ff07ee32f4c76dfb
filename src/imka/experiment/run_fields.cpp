#include "imka/experiment/run_fields.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace imka {
namespace {

void append(Fields more, Fields& list) {
    std::ranges::move(more, std::back_inserter(list));
}

// Without the settings of fits and Gram errors.
Fields projection_fields(ChipRun& run) {
    auto list = fields(run);
    std::erase_if(list, [](const Field& f) { return f.name.starts_with("fit_") || f.name == "gram_copies"; });
    return list;
}

}  // namespace

Fields dataset_fields(RunConfig& c) {
    Fields list = {
        field("dataset", c.dataset,
              {.help = "Data set, generator, file with labels, or two files TRAIN:TEST"}),
    };
    append(fields(c.read), list);
    list.push_back(field("protocol", c.protocol,
                         {.help = "How data are split and scaled: default, or as in the measured runs"}));
    list.push_back(field("task", c.task, {.help = "Type of the labels: classes, or numbers to predict"}));
    append(fields(c.features), list);
    append(fields(c.ridge), list);
    list.push_back(
        field("backend", c.backend, {.help = "Where the projection is computed: this processor or a chip"}));
    list.push_back(field("split_seed", c.split_seed, {.help = "Seed of random splits and generated data"}));
    list.push_back(field("gram_rows", c.gram_rows,
                         {.help = "Test rows in the Gram error; 0 = none", .min = 0.0, .max = 20000.0}));
    list.push_back(field("seeds", c.seeds, {.help = "Seeds of the random features, one result each"}));
    return list;
}

Fields dataset_chip_fields(RunConfig& c) {
    return fields(c.chip);
}

Fields attention_fields(RunConfig& c) {
    auto& run = *c.attention;
    Fields list = {field("dataset", c.dataset,
                         {.help = "Queries, keys and values: normal, text, or a file of shape (N, 3, L, d)"}),
                   field("protocol", c.protocol,
                         {.help = "How directions are drawn: default, or as in the measured runs"})};
    append(fields(run.source), list);
    for (auto& f : fields(run.features)) {
        if (f.name != "shared") list.push_back(std::move(f));  // a run has one layer
    }
    list.push_back(field("matrix_rows", run.matrix_rows,
                         {.help = "Rows of the attention matrix in matrix_error; 0 = none; auto: all up to a "
                                  "length of 4096, else none",
                          .min = 0.0,
                          .max = 1e6}));
    list.push_back(field("published_slips", run.published_slips,
                         {.help = "Repeat the two slips of the published figure: 2π in cos and sin, unit "
                                  "directions divided by sqrt(m/d)"}));
    list.push_back(
        field("backend", c.backend, {.help = "Where the projection is computed: this processor or a chip"}));
    list.push_back(field("split_seed", c.split_seed, {.help = "Seed of generated data and sampled queries"}));
    list.push_back(field("seeds", c.seeds, {.help = "Seeds of the random features, one result each"}));
    return list;
}

Fields attention_chip_fields(RunConfig& c) {
    return projection_fields(c.chip);
}

Fields performer_fields(RunConfig& c) {
    auto& run = *c.performer;
    Fields list = {field("dataset", c.dataset, {.help = "Task of Long Range Arena, for example cifar10"})};
    append(fields(run.source), list);
    list.push_back(field("mode", run.mode, {.help = "What runs on the chip"}));
    list.push_back(field("saved_omega", run.saved_omega,
                         {.help = "Use the Ω of the checkpoint instead of drawing one per seed"}));
    list.push_back(field("omega_law", run.omega_law, {.help = "Distribution from which Ω is drawn"}));
    list.push_back(
        field("origin", run.origin, {.help = "Where the examples come from; set when a sweep is planned"}));
    list.push_back(field("seeds", c.seeds, {.help = "Each seed draws its own Ω and chip"}));
    return list;
}

Fields performer_chip_fields(RunConfig& c) {
    Fields list = {field("backend", c.backend, {.help = "Chip of the modes other than fp32"})};
    append(projection_fields(c.chip), list);
    std::erase_if(list, [](const Field& f) { return f.name == "chip_seed"; });  // always the seed of the run
    return list;
}

}  // namespace imka
