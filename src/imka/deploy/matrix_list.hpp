// Lists of matrices to place on a chip: names and sizes, from text, from files, or of known networks.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace imka {

// The names of the matrices that a call waits for. A name refers to the call with the same number if both
// matrices have the same number of calls, and otherwise to all calls; "name#1" is call 1.
struct CallSite {
    std::vector<std::string> after;      // read row by row
    std::vector<std::string> after_all;  // all vectors are needed for the first one
    bool operator==(const CallSite&) const = default;
};

struct ListedMatrix {
    std::string name;
    std::size_t inputs = 0;
    std::size_t outputs = 0;
    std::size_t calls = 1;    // call sites that use the weights; weights are placed once
    std::size_t vectors = 1;  // input vectors per call in one inference
    // Empty: every call waits for all vectors of the previous call. One: used for all calls. Otherwise one
    // per call.
    std::vector<CallSite> sites = {};
    bool operator==(const ListedMatrix&) const = default;
};
using MatrixList = std::vector<ListedMatrix>;

inline constexpr std::size_t kMostMatrices = 65536;
inline constexpr std::size_t kMostSide = std::size_t{1} << 24U;     // inputs or outputs
inline constexpr std::size_t kMostVectors = std::size_t{1} << 40U;  // calls or vectors

// Error{bad_config} for an empty list, sizes out of range, duplicate or empty names, and sites with unknown
// matrices or calls.
void validate(const MatrixList& list);

// "omega#1" is call 1 of "omega".
struct CallName {
    std::string_view matrix;
    std::optional<std::size_t> call;
};
CallName split_call_name(std::string_view name);

// "640x128 128x10*2@1024": inputs x outputs, *calls, @vectors. Names are m0, m1, ...
MatrixList parse_shapes(std::string_view text);

// By extension: .csv with the columns name,inputs,outputs[,calls[,vectors]]; .yaml and .json with a list
// `matrices` of maps with these keys, and after and after_all (docs/deploy.md); .npy and .safetensors: the
// shapes of the weights, one row per input (tensors of one row, such as biases, are left out).
MatrixList load_matrix_list(const std::filesystem::path& path);

struct Network {
    std::string name;
    std::string description;
    MatrixList matrices;
    std::optional<std::size_t> known_cores;     // best known, for cores of 256 x 256 and grid cuts
    std::optional<std::size_t> released_cores;  // of the published mapping
};
// The networks included in the library (networks/networks.yaml).
std::vector<Network> known_networks();
// Error{bad_config} that lists the known names if the name is unknown.
Network known_network(const std::string& name);

}  // namespace imka
