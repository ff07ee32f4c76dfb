// Expressions of ListOps: operators MIN, MAX, MED (truncated median) and SM (sum modulo 10) of digits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Tokens: 0..3 open an operator ("[MIN", "[MAX", "[MED", "[SM"), 4 is "]", 5..14 are the digits 0..9.
namespace imka::listops {

inline constexpr std::uint8_t kClose = 4;
inline constexpr std::uint8_t kFirstDigit = 5;
inline constexpr std::uint8_t kTokens = 15;
// An expression is kept if it has more than kLengthAbove and fewer than kLengthBelow tokens.
inline constexpr std::size_t kLengthAbove = 500;
inline constexpr std::size_t kLengthBelow = 2000;
inline constexpr int kMaxDepth = 10;
inline constexpr std::uint32_t kMaxArguments = 10;
inline constexpr double kOperatorShare = 0.25;

std::string_view token_text(std::uint8_t token);

// Value of an operator token; at least one argument.
std::uint8_t operator_value(std::uint8_t op, std::span<const std::uint8_t> arguments);

// "[MAX 2 9 ]"
std::string expression_text(std::span<const std::uint8_t> tokens);

// One line per operator with the value of its subtree, arguments indented, digits in a row on one line.
// Error{bad_data} if the tokens are not one expression.
std::string expression_tree(std::span<const std::uint8_t> tokens);

}  // namespace imka::listops
