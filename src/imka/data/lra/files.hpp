// Readers of the tasks that come from files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "imka/data/lra/task.hpp"
#include "imka/io/byte_stream.hpp"

namespace imka {

// The whole part, in the order of its file; imdb's training and validation parts are shuffled by the seed.
LraData load_imdb(LraPart part, const LraSource& source, const Exec& exec);
LraData load_cifar10(LraPart part, const LraSource& source, const Exec& exec);
LraData load_retrieval(LraPart part, const LraSource& source, const Exec& exec);

// The given examples, in this order, with their documents; a document of several examples appears once.
LraData chosen(const LraData& all, std::span<const std::uint32_t> examples);

// The file in data_dir, plain or compressed. Error{missing_part} that says where it is expected.
std::filesystem::path need_lra_file(LraTask task, const LraSource& source, const std::filesystem::path& file);

// Removes the first field and its tab from a line of a table. Error{bad_data} without a tab.
std::string_view take_field(const ByteStream& stream, std::string_view& line);
// "0" or "1", else Error{bad_data}.
std::uint8_t parse_binary_label(const ByteStream& stream, std::string_view text);
// Copies at most row.size() bytes and returns how many. Error{bad_data} if the text is empty.
std::uint32_t copy_text(const ByteStream& stream, std::string_view text, std::span<std::uint8_t> row);

}  // namespace imka
