// imka eval: tests a trained Performer digitally, with its attention on a chip, or wholly on a chip.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app.hpp"
#include "chip/options.hpp"
#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/sha256.hpp"
#include "imka/base/version.hpp"
#include "imka/chip/spec/chip_fields.hpp"
#include "imka/graph/tensor_file.hpp"
#include "imka/train/evaluate.hpp"

namespace imka::app {
namespace {

struct EvalArgs {
    std::filesystem::path checkpoint;
    std::string task;
    std::string modes = "fp32";
    LraPart part = LraPart::test;
    std::optional<std::int64_t> samples;
    std::uint64_t data_seed = 0;
    std::int64_t calibration_examples = 256;
    ChipArgs chip;
    EvaluateOptions options;
    std::filesystem::path dump;
    std::int64_t dump_examples = 50;
};

std::vector<EvalMode> parse_modes(const std::string& text) {
    std::vector<EvalMode> modes;
    for (std::size_t begin = 0; begin <= text.size();) {
        const auto end = std::min(text.find(',', begin), text.size());
        modes.push_back(parse_enum<EvalMode>(text.substr(begin, end - begin)));
        begin = end + 1;
    }
    return modes;
}

bool needs_chip(const EvaluateOptions& options) {
    return std::ranges::any_of(options.modes, [](EvalMode m) { return m != EvalMode::fp32; });
}

// An evaluation with its options, model and data.
struct Evaluated {
    const EvalArgs& args;
    const Performer& model;
    const LraData& data;
    const Evaluation& evaluation;
};

std::string omega_text(const EvalArgs& args, const Performer& model) {
    if (model.config.attention == ModelAttention::exact) return "none";
    if (args.options.omega_law != OmegaLaw::gaussian) return std::string(to_string(args.options.omega_law));
    return args.options.saved_omega ? "saved" : "drawn";
}

double tokens_per_second(const Evaluation& e, const ModeResult& result) {
    double seconds = 0.0;
    for (const auto& s : result.seeds) seconds += s.seconds;
    return static_cast<double>(e.tokens) * static_cast<double>(result.seeds.size()) / std::max(seconds, 1e-9);
}

Json difference_json(const Evaluation& e, const ModeResult& result) {
    const auto d = paired_difference(e, result, e.modes.front());
    auto json = summary_json(d.seeds);
    json["mode"] = to_string(e.modes.front().mode);
    json["standard_error_seeds"] = d.seeds.n > 1 ? Json(d.seeds.error()) : Json();
    json["standard_error_examples"] = d.example_error;
    return json;
}

Json confusion_json(const Evaluation& e, const ModeResult& result) {
    const auto counts = confusion_of(e, result);
    Json rows = Json::array();
    for (std::size_t r = 0; r < counts.rows(); ++r)
        rows.push_back(std::vector<std::uint64_t>(counts.row(r).begin(), counts.row(r).end()));
    return rows;
}

Json mode_json(const Evaluation& e, const ModeResult& result) {
    const auto accuracy = accuracy_of(e, result);
    Json json{{"mode", to_string(result.mode)},
              {"accuracy", summary_json(accuracy)},
              {"standard_error_seeds", accuracy.n > 1 ? Json(accuracy.error()) : Json()},
              {"standard_error_examples", binomial_error(accuracy.mean, e.labels.size())},
              {"loss", summary_json(loss_of(result))},
              {"confusion", confusion_json(e, result)},
              {"tokens_per_second", tokens_per_second(e, result)}};
    if (result.mode != EvalMode::fp32) {
        json["cores"] = result.cores;
        json["saturated_share"] = result.saturated_share;
    }
    if (&result != &e.modes.front()) json["difference"] = difference_json(e, result);
    return json;
}

Json backend_json(const EvalArgs& args) {
    Json json;
    json["backend"] = needs_chip(args.options) ? args.options.chip.name : "fp32";
    if (!needs_chip(args.options)) return json;
    auto build = args.options.build;
    json["chip_hash"] = chip_hash(args.options.chip);
    json["calibration_examples"] = args.calibration_examples;
    json["chip"] = Json::parse(imka::to_json(fields(build)));
    return json;
}

Json to_json(const Evaluated& r) {
    const auto& [args, model, data, e] = r;
    Json json{{"checkpoint", args.checkpoint.string()},
              {"checkpoint_sha256", sha256_hex(read_file(args.checkpoint, std::size_t{1} << 30U))},
              {"task", model.task},
              {"origin", data.origin},
              {"part", to_string(args.part)},
              {"examples", e.labels.size()},
              {"tokens", e.tokens},
              {"data_seed", args.data_seed},
              {"attention", to_string(model.config.attention)},
              {"omega", omega_text(args, model)},
              {"omega_scale", model.config.omega_scale},
              {"truncated_omega", e.truncated_omega},
              {"hardware_aware", !model.input_ranges.empty()},
              {"seeds", args.options.seeds}};
    json.update(backend_json(args));
    if (e.modes.size() == 1) json["accuracy"] = summary_json(accuracy_of(e, e.modes[0]));
    for (const auto& mode : e.modes) json["modes"].push_back(mode_json(e, mode));
    json["imka_version"] = build_info().version;
    return json;
}

std::string points(double share) {
    return fmt::format("{:.2f}", 100.0 * share);
}

void print_modes(const Evaluation& e) {
    TextTable table = {{"mode", "accuracy %", "sd of seeds", "se of seeds", "se of examples", "loss"}};
    if (e.modes.size() > 1) table[0].push_back(fmt::format("minus {}", to_string(e.modes[0].mode)));
    table[0].emplace_back("tokens/s");
    for (const auto& mode : e.modes) {
        const auto a = accuracy_of(e, mode);
        std::vector<std::string> row{std::string(to_string(mode.mode)),
                                     points(a.mean),
                                     a.n > 1 ? points(a.std) : "",
                                     a.n > 1 ? points(a.error()) : "",
                                     points(binomial_error(a.mean, e.labels.size())),
                                     fmt::format("{:.4f}", loss_of(mode).mean)};
        if (e.modes.size() > 1 && &mode == &e.modes.front()) row.emplace_back();
        if (&mode != &e.modes.front()) {
            const auto d = paired_difference(e, mode, e.modes.front());
            row.push_back(fmt::format("{:+.2f} ± {:.2f}", 100.0 * d.seeds.mean,
                                      100.0 * std::max(d.seeds.error(), d.example_error)));
        }
        row.push_back(fmt::format("{:.3g}", tokens_per_second(e, mode)));
        table.push_back(std::move(row));
    }
    print_out("{}", format_table(table));
    if (e.modes.size() > 1)
        print_out("minus: on the same examples with the same Ω; ± the larger of the two standard errors\n");
}

void print_result(const Evaluated& r) {
    const auto& [args, model, data, e] = r;
    const auto omega = omega_text(args, model);
    print_out("{} ({}), part {}: {}, {} tokens\n", model.task, data.origin, to_string(args.part),
              count_text(e.labels.size(), "example", "examples"), e.tokens);
    print_out("{} attention{}{}{}; {}\n", to_string(model.config.attention),
              omega == "none"      ? ""
              : omega == "saved"   ? ", Ω of the checkpoint"
              : omega == "poisson" ? ", a new Ω of the Poisson law per seed"
                                   : ", a new Ω per seed",
              e.truncated_omega ? ", truncated as on the chip" : "",
              omega == "none" ? "" : fmt::format(", scale {:g}", model.config.omega_scale),
              count_text(args.options.seeds.size(), "seed", "seeds"));
    if (needs_chip(args.options))
        print_out("chip {}, read {:g} s after programming, compensation {}\n", args.options.chip.name,
                  args.options.build.read_seconds, to_string(args.options.build.compensation));
    print_out("\n");
    print_modes(e);
    for (const auto& mode : e.modes) {
        if (mode.mode != EvalMode::fp32)
            print_out("{}: {}, {:.3g} % of the conversions saturated\n", to_string(mode.mode),
                      count_text(mode.cores, "core", "cores"), 100.0 * mode.saturated_share);
    }
}

void write_qkv(const EvalArgs& args, const Performer& model, const LraData& data, const Context& context) {
    const auto qkv = last_layer_qkv(model, data, static_cast<std::size_t>(args.dump_examples), context.exec);
    graph::write_tensor(args.dump, qkv);
    if (!context.json)
        print_out("queries, keys and values of the last layer ({}) in {}\n", graph::to_text(qkv.shape),
                  args.dump.string());
}

void check_args(const CLI::App& verb, const EvalArgs& args) {
    if (!needs_chip(args.options))
        reject_without_effect(verb,
                              {"--backend", "--chip-set", "--at", "--compensation", "--input-range",
                               "--input-alpha", "--calibration-inputs", "--calibration-examples",
                               "--programming", "--output-calibration", "--read-spacing"},
                              "mode fp32 runs digitally");
    if (args.dump.empty()) return reject_without_effect(verb, {"--dump-examples"}, "there is no --dump-qkv");
    if (args.dump.extension() != ".npy")
        fail(ErrorCode::bad_usage, fmt::format("--dump-qkv: {}: expected a file *.npy", args.dump.string()));
    check_folder(args.dump);
}

Performer load(const EvalArgs& args) {
    auto model = load_performer(args.checkpoint);
    if (!args.task.empty() && args.task != model.task)
        fail(ErrorCode::bad_config,
             fmt::format("{}: a model for the task {}, not {}", args.checkpoint.string(),
                         in_quotes(model.task), in_quotes(args.task)));
    return model;
}

void run(const CLI::App& verb, EvalArgs& args, const Context& context) {
    args.options.modes = parse_modes(args.modes);
    check_args(verb, args);
    const auto model = load(args);
    const auto task = parse_enum<LraTask>(model.task);
    LraSource source{.data_dir = context.data_dir, .seed = args.data_seed};
    if (args.samples) source.examples = static_cast<std::size_t>(*args.samples);
    if (needs_chip(args.options)) args.options.chip = load_spec(args.chip);
    const auto test = load_lra(task, args.part, source, context.exec);
    LraData calibration;
    if (needs_chip(args.options)) {
        // Calibration uses only examples of at least the median length, which half of them have.
        source.examples = static_cast<std::size_t>(2 * args.calibration_examples);
        calibration = load_lra(task, LraPart::train, source, context.exec);
    }
    const auto evaluation = evaluate(model, {test, calibration}, args.options, context.exec);
    const Evaluated result{args, model, test, evaluation};
    context.json ? print_json(to_json(result)) : print_result(result);
    if (!args.dump.empty()) write_qkv(args, model, test, context);
}

void add_data_options(CLI::App& verb, EvalArgs& args) {
    verb.add_option("--checkpoint", args.checkpoint, "Model written by 'imka train'")
        ->type_name("FILE.safetensors")
        ->required()
        ->check(CLI::ExistingFile);
    verb.add_option("--task", args.task,
                    "Expected task of the model; error if the model has a different task")
        ->type_name(join_names(EnumNames<LraTask>::values, "|"));
    add_enum_option(verb, "--part", args.part, "Part of the data");
    bind_fields(verb,
                {field("samples", args.samples,
                       {.help = "Number of examples, drawn with data_seed; auto: the whole part",
                        .min = 1.0,
                        .max = 1e7}),
                 field("data_seed", args.data_seed,
                       {.help = "Seed of generated tasks, of --samples and of the held-back part of imdb"}),
                 field("calibration_examples", args.calibration_examples,
                       range::between(1, 1e5, "Training examples used to calibrate a chip"))});
}

void add_mode_options(CLI::App& verb, EvalArgs& args) {
    verb.add_option("--mode", args.modes,
                    "What runs on the chip: nothing (fp32), products with Ω (attention), every static weight "
                    "(all), or all but the last layer; several separated by commas are compared with the "
                    "first, with the same Ω")
        ->type_name("fp32|attention|all|all-but-last")
        ->capture_default_str();
    bind_fields(verb, {field("seeds", args.options.seeds, {.help = "Each seed draws its own Ω and chip"})});
    verb.add_option_function<std::string>(
            "--seed",
            [&args](const std::string& text) {
                args.options.seeds = {Codec<std::uint64_t>::parse(text, "seed")};
            },
            "A single seed")
        ->type_name("integer")
        ->excludes("--seeds");
    verb.add_flag("--saved-omega", args.options.saved_omega,
                  "Use the Ω of the checkpoint instead of drawing one per seed");
    add_enum_option(verb, "--omega-law", args.options.omega_law,
                    "Distribution from which Ω is drawn; poisson: entries with mean 1, to check that the "
                    "distribution matters");
    verb.add_option("--dump-qkv", args.dump,
                    "Write queries, keys and values of the last layer, for 'imka attention --input'. "
                    "Documents have at least the median length and are cut to it")
        ->type_name("FILE.npy");
    bind_fields(verb, {field("dump_examples", args.dump_examples,
                             range::between(1, 1e5, "Examples for --dump-qkv; one sequence per head"))});
}

}  // namespace

void add_eval(CLI::App& root, Context& context) {
    auto args = std::make_shared<EvalArgs>();
    auto* verb = add_verb(
        root, "eval", "Test a trained Performer digitally or on the emulated chip",
        {"imka eval --checkpoint models/cifar10-vanilla.safetensors --seeds 0..9",
         "imka eval --checkpoint best.safetensors --mode fp32,attention --samples 2000 --seeds 0..9",
         "imka eval --checkpoint best.safetensors --mode fp32,all,all-but-last --device cuda --json",
         "imka eval --checkpoint models/imdb-hwa.safetensors --mode all --at 1d --compensation global",
         "imka eval --checkpoint models/imdb-hwa.safetensors --samples 100 --dump-qkv qkv.npy"});
    add_common_options(*verb, context);
    add_data_options(*verb, *args);
    add_mode_options(*verb, *args);
    add_chip_options(*verb, args->chip);
    add_build_options(*verb, args->options.build);
    add_device_option(*verb, "Where the model runs and the chip is emulated", context);
    verb->callback([args, verb, &context] { run(*verb, *args, context); });
}

}  // namespace imka::app
