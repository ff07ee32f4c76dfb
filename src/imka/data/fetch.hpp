// Downloads of registered data sets: resumed after a break, checked, and under their final name only when
// they are right.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "imka/base/exec.hpp"
#include "imka/data/registry.hpp"

namespace imka {

struct FetchOptions {
    std::filesystem::path data_dir = {};
    std::string base_url = {};  // a mirror: files are BASE/FOLDER/NAME; empty: the published addresses
    int retries = 4;            // after the first attempt, for failures that may pass; >= 0
    std::chrono::milliseconds backoff{1000};  // before the first retry; doubles
    std::chrono::seconds connect_timeout{20};
    std::chrono::seconds stall_timeout{60};             // no bytes for this long: the attempt has failed
    std::uint64_t max_bytes = std::uint64_t{4} << 30U;  // larger than any known file
};

struct FetchedFile {
    std::filesystem::path path;
    bool downloaded = false;  // false: it was there and is right
};

// Gets the files that are not there yet. A download goes to NAME.part, which a later call continues, and is
// renamed to NAME when its table is the known one. A wrong one is set aside as NAME.rejected: Error{bad_data}
// with both hashes. Error{io} for what the network or the server did, with the address.
std::vector<FetchedFile> fetch_dataset(const RegisteredSet& set, const FetchOptions& options,
                                       const Exec& exec);

// Last part of an address, with %20 and the like decoded: the file's name. Error{bad_config} when that is not
// a plain file name.
std::string url_file_name(const std::string& url);

}  // namespace imka
