#include "app.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>

#include "imka/cuda/gpu.hpp"
#include "terminal.hpp"

namespace imka::app {

int exit_code(ErrorCode code) {
    switch (code) {
        case ErrorCode::bad_usage:
        case ErrorCode::bad_config:
            return 2;
        case ErrorCode::bad_data:
        case ErrorCode::io:
        case ErrorCode::numeric:
            return 3;
        case ErrorCode::missing_part:
            return 4;
        case ErrorCode::interrupted:
            return 130;
    }
    return 3;
}

CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& summary,
                   const std::vector<std::string>& examples, const std::string& remarks) {
    auto* verb = parent.add_subcommand(name, summary);
    std::string footer = remarks;
    if (!examples.empty()) footer += remarks.empty() ? "Examples:" : "\n\nExamples:";
    for (const auto& example : examples) footer += "\n  " + example;
    verb->footer(footer);
    return verb;
}

void add_common_options(CLI::App& verb, Context& context) {
    verb.add_flag("--json", context.json, "Print one JSON object and nothing else on standard output");
    bind_fields(
        verb,
        {field("threads", context.exec.threads,
               range::between(0, 1024, "Number of threads; 0 = all cores. Results do not depend on it"))});
    verb.add_option("--data-dir", context.data_dir,
                    "Folder of the data sets; default: the environment variable IMKA_DATA");
    verb.add_flag_callback(
        "--quiet", [&context] { context.exec.progress = nullptr; }, "Do not show progress");
}

std::string flag_of(std::string_view field_name) {
    std::string flag = fmt::format("--{}", field_name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    return flag;
}

namespace {

const Field& field_named(const Fields& fields, const std::string& name) {
    const auto it =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
    assert(it != fields.end());
    return *it;
}

void add_field_option(CLI::App& verb, const Field& field,
                      const std::function<void(const std::string&)>& take) {
    std::string help(field.info.help);
    if (!field.info.unit.empty()) help += fmt::format(" [{}]", field.info.unit);
    std::string shown = field.json();
    std::erase_if(shown, [](char c) { return c == '"' || c == '[' || c == ']'; });
    verb.add_option_function<std::string>(flag_of(field.name), take, help)
        ->type_name(field.type)
        ->default_str(shown == "null" ? "auto" : shown);
}

}  // namespace

void add_device_option(CLI::App& verb, const std::string& what, Context& context) {
    verb.add_option_function<std::string>(
            "--device",
            [&context](const std::string& name) {
                context.exec.device = parse_device(name);
                context.gpu_named = name.find(':') != std::string::npos;
            },
            what + ": cpu, cuda or cuda:N (a GPU)")
        ->default_str("cpu");
}

void require_device(const Context& context) {
    if (context.exec.device.kind == DeviceKind::cuda) cuda::require_gpu(context.exec.device.number);
}

void add_at_option(CLI::App& verb, const std::string& names, const std::string& shown,
                   const std::function<void(const std::string&)>& take) {
    verb.add_option_function<std::string>(
            names, take, "Time since programming at which the chip is read: 90, 30min, 1h, 7d, 1y")
        ->type_name("TIME")
        ->default_str(shown);
}

void add_chip_set_option(CLI::App& verb, const std::string& names,
                         const std::function<void(const std::string&)>& take) {
    using Texts = std::vector<std::string>;
    verb.add_option_function<Texts>(
            names, [take](const Texts& texts) { take(fmt::format("{}", fmt::join(texts, ","))); },
            "Change constants of the chip, e.g. --chip-set core.adc_noise=2,core.gain_sd=0; may be repeated")
        ->type_name("KEY=VALUE,...")
        ->allow_extra_args(false);
}

void add_field_options(CLI::App& verb, const Fields& fields, const std::vector<std::string>& names,
                       Assignments& given) {
    for (const auto& name : names)
        add_field_option(verb, field_named(fields, name),
                         [&given, name](const std::string& text) { given.emplace_back(name, text); });
}

void bind_fields(CLI::App& verb, const Fields& fields) {
    for (const auto& f : fields) {
        add_field_option(verb, f, [set = f.set, name = f.name](const std::string& text) {
            try {
                set(text);
            } catch (const Error& e) {
                // The message names the setting as in files; here it is an option.
                const std::string message = e.what();
                const bool named = message.starts_with(name + ":");
                fail(e.code(), flag_of(name) + (named ? message.substr(name.size()) : ": " + message));
            }
        });
    }
}

void bind_fields(CLI::App& verb, const Fields& fields, const std::vector<std::string>& names) {
    Fields chosen;
    for (const auto& name : names) chosen.push_back(field_named(fields, name));
    bind_fields(verb, chosen);
}

void reject_without_effect(const CLI::App& verb, const std::vector<std::string>& flags,
                           std::string_view why) {
    for (const auto& flag : flags) {
        if (verb.count(flag) > 0) fail(ErrorCode::bad_usage, fmt::format("{} has no effect: {}", flag, why));
    }
}

TextTable table_of(const Json& rows, const std::vector<std::string>& keys) {
    const auto text = [](const Json& value) {
        if (value.is_string()) return value.get<std::string>();
        if (value.is_boolean()) return std::string(value.get<bool>() ? "yes" : "no");
        return value.is_null() ? std::string() : value.dump();
    };
    TextTable table = {keys};
    for (const auto& row : rows) {
        auto& line = table.emplace_back();
        for (const auto& key : keys) line.push_back(text(row.at(key)));
    }
    return table;
}

void print_json(const Json& json) {
    print_out("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

std::string format_table(const TextTable& rows) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t c = 0; c < row.size(); ++c) {
            line += row[c];
            if (c + 1 < row.size()) line.append(widths[c] - display_width(row[c]) + 2, ' ');
        }
        text += line + "\n";
    }
    return text;
}

}  // namespace imka::app
