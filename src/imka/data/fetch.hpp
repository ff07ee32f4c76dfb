// Downloads registered data sets: resumes interrupted downloads and checks the parsed tables.
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
    std::string base_url = {};  // a mirror with files BASE/FOLDER/NAME; empty: the published URLs
    int retries = 4;            // after temporary failures; >= 0
    std::chrono::milliseconds backoff{1000};  // before the first retry; doubles each time
    std::chrono::seconds connect_timeout{20};
    std::chrono::seconds stall_timeout{60};             // an attempt fails after this time without data
    std::uint64_t max_bytes = std::uint64_t{4} << 30U;  // larger than any known file
};

struct FetchedFile {
    std::filesystem::path path;
    bool downloaded = false;  // false: a correct file already existed
};

// Downloads the missing files. A download is written to NAME.part, which a later call resumes, and renamed to
// NAME if its table is the expected one; otherwise it is renamed to NAME.rejected and Error{bad_data} shows
// both hashes. Network and server failures are Error{io} with the URL.
std::vector<FetchedFile> fetch_dataset(const RegisteredSet& set, const FetchOptions& options,
                                       const Exec& exec);

// The last part of a URL, percent-decoded. Error{bad_config} if it is not a plain file name.
std::string url_file_name(const std::string& url);

}  // namespace imka
