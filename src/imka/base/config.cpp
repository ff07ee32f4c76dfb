#include "imka/base/config.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"

namespace imka {
namespace detail {
namespace {

template <class T>
T parse_with_charconv(std::string_view text, std::string_view name, std::string_view kind) {
    T value{};
    const auto* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end) {
        fail(ErrorCode::bad_config, fmt::format("{}: '{}' is not {}", name, text, kind));
    }
    return value;
}

}  // namespace

double parse_number(std::string_view text, std::string_view name) {
    const auto value = parse_with_charconv<double>(text, name, "a number");
    if (!std::isfinite(value)) fail(ErrorCode::bad_config, fmt::format("{}: '{}' is not finite", name, text));
    return value;
}

std::int64_t parse_integer(std::string_view text, std::string_view name) {
    return parse_with_charconv<std::int64_t>(text, name, "a whole number");
}

int parse_int(std::string_view text, std::string_view name) {
    const auto value = parse_integer(text, name);
    if (std::abs(value) > std::numeric_limits<int>::max())
        fail(ErrorCode::bad_config,
             fmt::format("{}: {} is out of range; it must be below 2^31", name, value));
    return static_cast<int>(value);
}

std::uint64_t parse_unsigned(std::string_view text, std::string_view name) {
    return parse_with_charconv<std::uint64_t>(text, name, "a whole number from 0 to 2^64 - 1");
}

bool parse_bool(std::string_view text, std::string_view name) {
    if (text == "true") return true;
    if (text == "false") return false;
    fail(ErrorCode::bad_config, fmt::format("{}: '{}' is neither true nor false", name, text));
}

void check_range(double value, const FieldInfo& info, std::string_view name) {
    const bool low = info.above_min ? !(value > info.min) : !(value >= info.min);
    if (!low && value <= info.max) return;
    std::string range;
    if (std::isfinite(info.min)) range = fmt::format("{} {}", info.above_min ? ">" : ">=", info.min);
    if (std::isfinite(info.max)) range += fmt::format("{}<= {}", range.empty() ? "" : " and ", info.max);
    if (range.empty()) range = "a number";
    fail(ErrorCode::bad_config, fmt::format("{}: {} is out of range; it must be {}", name, value, range));
}

std::string number_json(double value) {
    return nlohmann::json(value).dump();
}

std::string string_json(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace detail

std::vector<std::uint64_t> Codec<std::vector<std::uint64_t>>::parse(std::string_view text,
                                                                    std::string_view name) {
    constexpr std::uint64_t kMost = 100'000;
    std::vector<std::uint64_t> values;
    while (true) {
        const auto comma = text.find(',');
        const auto part = text.substr(0, comma);
        const auto dots = part.find("..");
        const auto first = detail::parse_unsigned(part.substr(0, dots), name);
        const auto last =
            dots == std::string_view::npos ? first : detail::parse_unsigned(part.substr(dots + 2), name);
        if (last < first) fail(ErrorCode::bad_config, fmt::format("{}: '{}' counts backwards", name, part));
        if (last - first >= kMost - values.size()) {
            fail(ErrorCode::bad_config,
                 fmt::format("{}: more than {} values; a list holds at most that many", name, kMost));
        }
        for (auto v = first; v != last + 1; ++v) values.push_back(v);
        if (comma == std::string_view::npos) return values;
        text.remove_prefix(comma + 1);
    }
}

std::string Codec<std::vector<std::uint64_t>>::json(const std::vector<std::uint64_t>& v) {
    return nlohmann::json(v).dump();
}

void Codec<std::vector<std::uint64_t>>::check(const std::vector<std::uint64_t>& v, const FieldInfo&,
                                              std::string_view name) {
    if (v.empty()) fail(ErrorCode::bad_config, fmt::format("{}: the list is empty", name));
    // Sorted, not in a set: a short text such as 0..99999 may stand for many values.
    auto sorted = v;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        fail(ErrorCode::bad_config, fmt::format("{}: a value stands twice", name));
}

void set_field(const Fields& fields, std::string_view name, std::string_view text) {
    const auto it =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
    if (it == fields.end()) {
        std::vector<std::string_view> names;
        for (const auto& f : fields) names.emplace_back(f.name);
        fail(ErrorCode::bad_config, fmt::format("'{}' is not a known setting; known: {}", name, join(names)));
    }
    it->set(text);
}

namespace {

// Takes one flat YAML mapping event by event. A list of plain values becomes the text a codec reads:
// [0, 3, 5..8] is "0,3,5..8". Everything that settings do not need is refused where it stands, so a hostile
// file costs no more than its length.
class FlatMapHandler : public YAML::EventHandler {
public:
    FlatMapHandler(const Fields& fields, std::string_view where) : fields_(fields), where_(where) {}

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (documents_++ > 0) refuse(mark, "a second document; one belongs here");
    }
    void OnDocumentEnd() override {}
    void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
        refuse(mark, fmt::format("the anchor '&{}'; write values out", name));
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        refuse(mark, "an alias; write values out");
    }
    void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
        if (!key_) refuse(mark, "no setting; 'key: value' lines belong here");
        refuse(key_mark_, fmt::format("nothing behind '{}'; a plain value or a list belongs here", *key_));
    }
    void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  const std::string& value) override {
        if (!in_map_) refuse(mark, "bare text; 'key: value' lines belong here");
        if (in_list_) {
            if (!list_.empty()) list_ += ',';
            list_ += value;
        } else if (key_) {
            set(mark, value);
        } else {
            take_key(mark, value);
        }
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {
        if (!key_) refuse(mark, "a list; 'key: value' lines belong here");
        if (in_list_) refuse(mark, fmt::format("a list inside the list of '{}'", *key_));
        in_list_ = true;
        list_.clear();
        list_mark_ = mark;
    }
    void OnSequenceEnd() override {
        in_list_ = false;
        set(list_mark_, list_);
    }
    void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {
        if (key_)
            refuse(mark, fmt::format("a mapping behind '{}'; a plain value or a list belongs here", *key_));
        if (in_map_) refuse(mark, "a mapping as a key; a key must be plain text");
        in_map_ = true;
    }
    void OnMapEnd() override {}

private:
    std::string place(const YAML::Mark& mark) const {
        return fmt::format("{}: line {}", where_, mark.line + 1);
    }
    [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view what) const {
        fail(ErrorCode::bad_config, fmt::format("{}: {}", place(mark), what));
    }
    void take_key(const YAML::Mark& mark, const std::string& key) {
        if (!seen_.insert(key).second) refuse(mark, fmt::format("'{}' stands twice", key));
        key_ = key;
        key_mark_ = mark;
    }
    void set(const YAML::Mark& mark, std::string_view value) {
        try {
            set_field(fields_, *key_, value);
        } catch (const Error& e) {
            fail(e.code(), fmt::format("{}: {}", place(mark), e.what()));
        }
        key_.reset();
    }

    const Fields& fields_;
    std::string where_;
    int documents_ = 0;
    bool in_map_ = false;
    bool in_list_ = false;
    std::optional<std::string> key_;  // whose value comes next
    YAML::Mark key_mark_;
    std::string list_;
    YAML::Mark list_mark_;
    std::set<std::string> seen_;
};

}  // namespace

void load_yaml_text(const Fields& fields, std::string_view text, std::string_view where) {
    FlatMapHandler handler(fields, where);
    try {
        std::istringstream in{std::string(text)};
        YAML::Parser parser(in);
        while (parser.HandleNextDocument(handler)) {
        }
    } catch (const YAML::Exception& e) {
        fail(ErrorCode::bad_config, fmt::format("{}: not valid YAML: {}", where, e.what()));
    }
}

void load_yaml(const Fields& fields, const std::filesystem::path& path) {
    load_yaml_text(fields, read_file(path, std::size_t{1} << 20U), path.string());
}

std::string to_json(const Fields& fields) {
    std::string text = "{";
    for (const auto& f : fields) {
        if (text.size() > 1) text += ", ";
        text += detail::string_json(f.name) + ": " + f.json();
    }
    return text + "}";
}

void check_ranges(const Fields& fields) {
    for (const auto& f : fields) f.check();
}

}  // namespace imka
