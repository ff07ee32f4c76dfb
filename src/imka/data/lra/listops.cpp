#include "imka/data/lra/listops.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>
#include <optional>

#include "imka/base/error.hpp"
#include "imka/data/lra/generate.hpp"

namespace imka {
namespace listops {
namespace {

constexpr std::array<std::string_view, kTokens> kText = {"[MIN", "[MAX", "[MED", "[SM", "]", "0", "1", "2",
                                                         "3",    "4",    "5",    "6",   "7", "8", "9"};

std::uint8_t median(std::span<const std::uint8_t> arguments) {
    std::vector<std::uint8_t> sorted(arguments.begin(), arguments.end());
    std::ranges::sort(sorted);
    const std::size_t half = sorted.size() / 2;
    if (sorted.size() % 2 == 1) return sorted[half];
    return static_cast<std::uint8_t>((sorted[half - 1] + sorted[half]) / 2);
}

// Reads tokens as an expression and writes its tree.
class TreeWriter {
public:
    explicit TreeWriter(std::span<const std::uint8_t> tokens) : tokens_(tokens) {}

    std::string tree() {
        std::string text;
        append(0, text);
        if (at_ != tokens_.size())
            fail(ErrorCode::bad_data, "ListOps: tokens after the end of the expression");
        return text;
    }

private:
    std::uint8_t next() {
        if (at_ == tokens_.size()) fail(ErrorCode::bad_data, "ListOps: the expression is not complete");
        return tokens_[at_++];
    }
    bool digit_is_next() const {
        return at_ < tokens_.size() && tokens_[at_] >= kFirstDigit && tokens_[at_] < kTokens;
    }

    // Appends the next digits or operator, and their values to `values`.
    void append_argument(std::size_t depth, std::string& text, std::vector<std::uint8_t>& values) {
        if (!digit_is_next()) {
            values.push_back(append(depth, text));
            return;
        }
        text.append(2 * depth, ' ');
        for (std::string_view blank; digit_is_next(); blank = " ") {
            values.push_back(static_cast<std::uint8_t>(next() - kFirstDigit));
            text.append(blank).append(std::to_string(values.back()));
        }
        text += '\n';
    }

    std::uint8_t append(std::size_t depth, std::string& text) {
        if (depth > kMaxDepth) fail(ErrorCode::bad_data, "ListOps: the expression is nested too deeply");
        const auto op = next();
        if (op >= kTokens || op == kClose)
            fail(ErrorCode::bad_data, "ListOps: expected an operator or a digit");
        if (op > kClose) {
            text.append(token_text(op)).append("\n");
            return static_cast<std::uint8_t>(op - kFirstDigit);
        }
        std::string below;
        std::vector<std::uint8_t> values;
        while (at_ < tokens_.size() && tokens_[at_] != kClose) append_argument(depth + 1, below, values);
        next();
        if (values.empty()) fail(ErrorCode::bad_data, "ListOps: an operator without arguments");
        const auto value = operator_value(op, values);
        text.append(2 * depth, ' ').append(token_text(op)).append(" = ");
        text.append(std::to_string(value)).append("\n").append(below);
        return value;
    }

    std::span<const std::uint8_t> tokens_;
    std::size_t at_ = 0;
};

// Draws an expression into `tokens` as LRA's script does: number of arguments, arguments, operator.
class ExpressionWriter {
public:
    ExpressionWriter(ExampleRandom& random, std::span<std::uint8_t> tokens)
        : random_(random), tokens_(tokens) {}

    std::size_t length() const { return length_; }

    // Value of the subtree; none if the expression becomes too long.
    std::optional<std::uint8_t> append(int depth) {
        const bool digit = depth >= kMaxDepth || random_.uniform() > kOperatorShare;
        if (length_ + (digit ? 1 : 2) >= kLengthBelow) return std::nullopt;
        if (digit) {
            const auto value = static_cast<std::uint8_t>(random_.below(10));
            tokens_[length_++] = static_cast<std::uint8_t>(kFirstDigit + value);
            return value;
        }
        const std::size_t opening = length_++;
        std::array<std::uint8_t, kMaxArguments> values{};
        const std::uint32_t count = 2 + random_.below(kMaxArguments - 1);
        for (std::uint32_t i = 0; i < count; ++i) {
            const auto value = append(depth + 1);
            if (!value) return std::nullopt;
            values.at(i) = *value;
        }
        if (length_ + 1 >= kLengthBelow) return std::nullopt;
        tokens_[opening] = static_cast<std::uint8_t>(random_.below(kClose));
        tokens_[length_++] = kClose;
        return operator_value(tokens_[opening], std::span(values).first(count));
    }

private:
    ExampleRandom& random_;
    std::span<std::uint8_t> tokens_;
    std::size_t length_ = 0;
};

}  // namespace

std::string_view token_text(std::uint8_t token) {
    return kText.at(token);
}

std::uint8_t operator_value(std::uint8_t op, std::span<const std::uint8_t> arguments) {
    assert(!arguments.empty());
    switch (op) {
        case 0:
            return *std::ranges::min_element(arguments);
        case 1:
            return *std::ranges::max_element(arguments);
        case 2:
            return median(arguments);
        default:
            return static_cast<std::uint8_t>(std::accumulate(arguments.begin(), arguments.end(), 0) % 10);
    }
}

std::string expression_text(std::span<const std::uint8_t> tokens) {
    std::string text;
    for (const auto token : tokens) {
        if (!text.empty()) text += ' ';
        text += token_text(token);
    }
    return text;
}

std::string expression_tree(std::span<const std::uint8_t> tokens) {
    return TreeWriter(tokens).tree();
}

}  // namespace listops

// Expressions outside the length limits are rejected; about one in twelve is kept.
GeneratedExample generate_listops(ExampleRandom& random, std::span<std::uint8_t> tokens) {
    while (true) {
        listops::ExpressionWriter expression(random, tokens);
        const auto value = expression.append(1);
        if (!value || expression.length() <= listops::kLengthAbove) continue;
        std::ranges::fill(tokens.subspan(expression.length()), std::uint8_t{0});
        return {.length = static_cast<std::uint32_t>(expression.length()), .label = *value};
    }
}

}  // namespace imka
