// imka cost: time, energy, area and digital work of mapped matrices; the paper's numbers computed again.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "app.hpp"
#include "chip/options.hpp"
#include "cost_text.hpp"
#include "imka/base/error.hpp"
#include "imka/deploy/cost_cases.hpp"
#include "imka/deploy/deployed_model.hpp"
#include "imka/deploy/map_verify.hpp"
#include "imka/deploy/mapping_file.hpp"
#include "imka/deploy/on_chip.hpp"
#include "imka/deploy/paper_cost.hpp"
#include "imka/deploy/plan_file.hpp"
#include "matrix_options.hpp"

namespace imka::app {
namespace {

struct CostArgs {
    std::string what;  // "paper" or a mapping file
    ChipArgs chip;
    MatrixArgs matrices;
    MapOptions map;  // cuts and chips
    DigitalWork work;
    bool parameters = false;
};

std::string copies_text(const CostCase& c) {
    return c.copies ? std::to_string(*c.copies) : "as mapped";
}

Json number_or_null(const std::optional<double>& value) {
    return value ? Json(*value) : Json();
}

Json case_json(const CostCase& c) {
    const auto& cost = c.cost;
    return {{"read_mode", to_string(c.mode)},
            {"copies", copies_text(c)},
            {"cores", cores_used(c.mapping)},
            {"chips", c.mapping.grid.chips},
            {"core_products", cost.core_products},
            {"operations", cost.operations},
            {"latency_seconds", cost.latency_seconds},
            {"interval_seconds", cost.interval_seconds},
            {"tops", cost.tops()},
            {"energy_joules", number_or_null(cost.core_joules)},
            {"tops_per_watt", number_or_null(cost.tops_per_watt())},
            {"partial_sums", cost.partial_sums},
            {"chip_bytes", cost.chip_bytes},
            {"host_bytes", cost.host_bytes},
            {"digital_seconds", value_json(cost.digital_seconds)},
            {"digital_joules", value_json(cost.digital_joules)},
            {"link_seconds", value_json(cost.link_seconds)},
            {"link_joules", value_json(cost.link_joules)},
            {"area_mm2", number_or_null(cost.area_mm2)},
            {"lifetime_writes", cost.lifetime_writes}};
}

Json machines_json(const CostData& data, const MatrixList& list) {
    Json rows = Json::array();
    for (const auto& m : data.machines) {
        const auto cost = machine_cost(m, list);
        rows.push_back({{"machine", m.name},
                        {"model", true},
                        {"seconds", cost.seconds},
                        {"joules", cost.joules},
                        {"joules_without_static", cost.joules_without_static},
                        {"limit", cost.memory_bound ? "memory" : "compute"},
                        {"area_mm2", m.area_mm2},
                        {"source", m.source}});
    }
    return rows;
}

void print_cases(const std::vector<CostCase>& cases) {
    TextTable table = {{"read mode", "copies", "cores", "chips", "latency us", "interval us", "TOPS",
                        "core energy uJ", "TOPS/W", "area mm2"}};
    for (const auto& c : cases) {
        const auto& cost = c.cost;
        table.push_back(
            {std::string(to_string(c.mode)), copies_text(c), std::to_string(cores_used(c.mapping)),
             std::to_string(c.mapping.grid.chips), fmt::format("{:.5g}", 1e6 * cost.latency_seconds),
             fmt::format("{:.5g}", 1e6 * cost.interval_seconds), fmt::format("{:.4g}", cost.tops()),
             cost.core_joules ? fmt::format("{:.5g}", 1e6 * *cost.core_joules) : "unknown",
             cost.core_joules ? fmt::format("{:.3g}", *cost.tops_per_watt()) : "unknown",
             cost.area_mm2 ? fmt::format("{:g}", *cost.area_mm2) : "unknown"});
    }
    print_out("{}\n", format_table(table));
    const auto& cost = cases.front().cost;
    print_out("digital work (value, interval): {} uJ, {} us, with {:.6g} additions of partial sums\n",
              value_text(cost.digital_joules, 1e-6), value_text(cost.digital_seconds, 1e-6),
              cost.partial_sums);
    print_out("links: {:.6g} bytes on the chip, {:.6g} bytes to the host and between chips; {} uJ, {} us\n",
              cost.chip_bytes, cost.host_bytes, value_text(cost.link_joules, 1e-6),
              value_text(cost.link_seconds, 1e-6));
    print_out(
        "latency: matrices in sequence. interval: time between consecutive inferences. Both count the cores "
        "only.\n");
    print_out("endurance: the weights can be written {:.3g} times\n", cost.lifetime_writes);
}

void print_machines(const Json& machines) {
    TextTable table = {{"machine (model)", "us", "uJ", "uJ without static", "limit"}};
    for (const auto& m : machines)
        table.push_back({m["machine"].get<std::string>(),
                         fmt::format("{:.5g}", 1e6 * m["seconds"].get<double>()),
                         fmt::format("{:.5g}", 1e6 * m["joules"].get<double>()),
                         fmt::format("{:.5g}", 1e6 * m["joules_without_static"].get<double>()),
                         m["limit"].get<std::string>()});
    print_out("\n{}", format_table(table));
}

// A mapping, either of a deployed model (with its digital work) or from a mapping file.
struct CostSource {
    ChipSpec spec;
    Mapping mapping;
    std::optional<Pipeline> pipeline;  // only for a deployed model
};

CostSource read_source(const CostArgs& args) {
    if (args.what.ends_with(".plan")) {
        const auto model = load_deployed(args.what);
        const auto inference = with_one_inference(model.graph, model.input_shapes);
        return {model.chip.plan.spec, mapping_of(model), pipeline_of(inference, model.matrices)};
    }
    if (args.what.ends_with(".onnx") || args.what.ends_with(".safetensors"))
        fail(ErrorCode::bad_usage,
             fmt::format(
                 "{}: expected a mapping or a deployed model; 'imka deploy {}' shows the cost of a model",
                 args.what, args.what));
    auto spec = load_spec(args.chip);
    auto mapping = load_mapping(args.what, grid_of(spec));
    return {std::move(spec), std::move(mapping), {}};
}

std::vector<CostCase> file_cases(const CostArgs& args, const CostSource& source, const CostData& data) {
    with_file_name(args.what, [&] { verify_legal(source.mapping); });
    if (source.pipeline) return cost_cases(source.mapping, *source.pipeline, source.spec, data);
    return cost_cases(source.mapping, source.spec, data, args.work);
}

void show_cost(const CostArgs& args, const Context& context) {
    auto spec = load_spec(args.chip);
    const auto data = cost_data();
    NamedMatrices matrices;
    std::vector<CostCase> cases;
    if (args.what.empty()) {
        matrices = read_matrices(args.matrices);
        cases = cost_cases(matrices.list, spec, data,
                           {.cuts = args.map.cuts, .chips = args.map.chips, .work = args.work});
    } else {
        const auto source = read_source(args);
        spec = source.spec;
        cases = file_cases(args, source, data);
        matrices.name = args.what;
        for (const auto& m : cases.front().mapping.matrices) matrices.list.push_back(m.shape);
    }
    const auto machines = machines_json(data, matrices.list);
    if (context.json) {
        Json rows = Json::array();
        for (const auto& c : cases) rows.push_back(case_json(c));
        return print_json({{"name", matrices.name},
                           {"backend", spec.name},
                           {"cases", rows},
                           {"machines", machines},
                           {"parameters", parameters_json(data.parameters)},
                           {"technology", parameters_json(data.technology)}});
    }
    print_out("{} on {}: {}, {:.6g} operations per inference\n\n", matrices.name, spec.name,
              count_text(matrices.list.size(), "matrix", "matrices"), cases.front().cost.operations);
    print_cases(cases);
    print_machines(machines);
    if (args.parameters)
        print_out("\n{}\n{}", parameters_text(data.parameters), parameters_text(data.technology));
}

Json neurram_json(const NeurramRow& r) {
    return {{"input_bits", r.measured.input_bits},
            {"output_bits", r.measured.output_bits},
            {"phases", r.measured.phases},
            {"tops", r.measured.tops},
            {"model_tops", r.tops},
            {"tops_per_watt", r.measured.tops_per_watt},
            {"model_tops_per_watt", r.tops_per_watt}};
}

void print_paper(const std::vector<PaperRow>& rows, const NeurramCheck& check) {
    TextTable table = {{"number", "paper", "computed", "unit", "agrees", "where", "arithmetic"}};
    for (const auto& r : rows)
        table.push_back({r.published.name, r.published.text, r.printed, r.published.unit,
                         r.agrees ? (*r.agrees ? "yes" : "no") : "", r.published.where, r.published.how});
    print_out("{}\nNotes:\n", format_table(table));
    for (const auto& r : rows) {
        if (!r.published.note.empty()) print_out("  {}: {}\n", r.published.name, r.published.note);
    }
    TextTable points = {{"bits in", "bits out", "phases", "TOPS", "model", "TOPS/W", "model"}};
    for (const auto& r : check.rows)
        points.push_back({std::to_string(r.measured.input_bits), std::to_string(r.measured.output_bits),
                          std::to_string(r.measured.phases), fmt::format("{:.4g}", r.measured.tops),
                          fmt::format("{:.4g}", r.tops), fmt::format("{:.4g}", r.measured.tops_per_watt),
                          fmt::format("{:.4g}", r.tops_per_watt)});
    print_out(
        "\nA second chip, NeuRRAM (48 cores): median error of the model {:.1f} % in TOPS, {:.1f} % in "
        "TOPS/W\n{}",
        100 * check.median_tops_error, 100 * check.median_tops_per_watt_error, format_table(points));
    const auto& chip = check.preset;
    print_out(
        "\nThe chip neurram ({} bits in, {} out): {:.4g} TOPS, {:.4g} TOPS/W; measured {:.4g} and {:.4g}\n",
        chip.measured.input_bits, chip.measured.output_bits, chip.tops, chip.tops_per_watt,
        chip.measured.tops, chip.measured.tops_per_watt);
}

void show_paper(const Context& context) {
    const auto data = cost_data();
    const auto rows = paper_rows(data);
    const auto check = neurram_check(data.neurram);
    if (!context.json) return print_paper(rows, check);
    Json list = Json::array();
    for (const auto& r : rows)
        list.push_back({{"name", r.published.name},
                        {"published", r.published.text},
                        {"computed", r.computed},
                        {"printed", r.printed},
                        {"agrees", r.agrees ? Json(*r.agrees) : Json()},
                        {"unit", r.published.unit},
                        {"where", r.published.where},
                        {"how", r.published.how},
                        {"note", r.published.note}});
    Json points = Json::array();
    for (const auto& r : check.rows) points.push_back(neurram_json(r));
    print_json({{"values", list},
                {"neurram", points},
                {"neurram_preset", neurram_json(check.preset)},
                {"neurram_median_tops_error", check.median_tops_error},
                {"neurram_median_tops_per_watt_error", check.median_tops_per_watt_error}});
}

std::vector<std::string> work_flags() {
    return {"--exponentials", "--divisions", "--norm-elements", "--additions", "--multiplications"};
}

void add_work_options(CLI::App& verb, DigitalWork& work) {
    const auto count = [](std::string_view help) { return FieldInfo{.help = help, .unit = "", .min = 0}; };
    bind_fields(
        verb,
        {field("exponentials", work.exponentials, count("Digital exponentials per inference")),
         field("divisions", work.divisions, count("Digital divisions per inference")),
         field("norm_elements", work.norm_elements,
               count("Digital norm elements per inference, each squared and added")),
         field("additions", work.additions,
               count("Digital additions per inference, not counting the partial sums of tiles")),
         field("multiplications", work.multiplications, count("Digital multiplications per inference"))});
}

}  // namespace

void add_cost(CLI::App& root, Context& context) {
    auto args = std::make_shared<CostArgs>();
    auto* verb = add_verb(root, "cost", "Time, energy and area of matrices on a chip, or the paper's numbers",
                          {"imka cost --network resnet18-in", "imka cost --shapes 512x1024@1024 --chips 1",
                           "imka cost plan.json --exponentials 262144 --divisions 65536", "imka cost paper"});
    add_common_options(*verb, context);
    verb->add_option("what", args->what, "A deployed model (.plan), a mapping file of 'imka map', or 'paper'")
        ->type_name("FILE|paper");
    add_matrix_options(*verb, args->matrices);
    add_chip_options(*verb, args->chip);
    bind_fields(*verb, fields(args->map), {"cuts", "chips"});
    add_work_options(*verb, args->work);
    verb->add_flag("--parameters", args->parameters, "Print the constants with unit, interval and source");
    verb->callback([args, verb, &context] {
        if (!args->what.empty())
            reject_without_effect(*verb, {"--network", "--shapes", "--matrices", "--cuts", "--chips"},
                                  "'" + args->what + "' was given");
        if (args->what == "paper") {
            for (const auto& flags : {work_flags(), {"--backend", "--chip-set", "--parameters"}})
                reject_without_effect(*verb, flags, "the numbers of the paper are fixed");
            return show_paper(context);
        }
        if (args->what.ends_with(".plan")) {
            for (const auto& flags : {work_flags(), {"--backend", "--chip-set"}})
                reject_without_effect(*verb, flags, "the plan has its own chip and digital work");
        }
        show_cost(*args, context);
    });
}

}  // namespace imka::app
