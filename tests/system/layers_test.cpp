// Rules of the source tree that a compiler does not check: which layer includes which, where third-party
// headers are included, which identifiers the library must not use, the first line of a header.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/paths.hpp"

namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

using Problems = std::vector<std::string>;

// Folders by level; folders of the same level must not include each other.
const std::map<std::string, int, std::less<>> kStep = {
    {"base", 0},  {"cuda", 1},        {"io", 1},       {"ops", 2},     {"linalg", 3},
    {"data", 4},  {"kernel", 4},      {"chip", 4},     {"metrics", 4}, {"graph", 4},
    {"omega", 5}, {"deploy", 6},      {"features", 7}, {"learn", 8},   {"attention", 8},
    {"train", 9}, {"experiment", 10}, {"report", 11},  {"apps", 12},   {"python", 13}};

// Third-party headers by prefix, and the files that may include them. Headers of the library must not: users
// of the library need none of them.
struct Home {
    std::string header;
    std::string files;
};
const std::vector<Home> kHomes = {
    {"cblas|lapack|f77blas|openblas|Eigen/", "src/imka/linalg/.*"},
    {"yaml-cpp/", "src/imka/io/yaml\\.cpp"},
    {"nlohmann/",
     "src/imka/base/config\\.cpp|src/imka/.*_io\\.cpp|src/imka/io/safetensors\\.cpp|"
     "src/imka/experiment/.*|apps/.*"},
    // Kernels, and the one folder that calls the CUDA runtime.
    {"cuda|cublas|cusolver", "src/imka/cuda/.*|src/imka/.*\\.cuh?"},
    {"mpi", "src/imka/experiment/mpi\\.cpp"},
    {"torch/|ATen/|c10/", "src/imka/train/torch/.*"},
    {"onnx/|google/protobuf/", "src/imka/graph/onnx_import\\.cpp"},
    {"curl/", "src/imka/data/fetch\\.cpp"},
    {"openssl/", "src/imka/base/sha256\\.cpp"},
    {"zlib|bzlib|lzma|zstd", "src/imka/io/.*"},
    {"CLI/", "apps/.*"},
    {"nanobind/", "python/src/.*"},
    {"fmt/", "src/imka/.*|apps/.*|python/src/.*"},
};

struct Ban {
    std::string pattern;
    std::string reason;
};
// Banned in the code of the library, outside comments and strings.
const std::vector<Ban> kBans = {
    {R"(\bs?rand\s*\(|\bstd::rand\b|mt19937|random_device|random_engine)",
     "random numbers come from base/random"},
    {R"(\bgetenv\b|\benviron\b)", "the library does not read the environment"},
    {R"(\b[fs]?printf\b|\bputs\b|\bfmt::print\b|\bstd::(cout|cerr|clog)\b|<iostream>)",
     "the library does not print"},
    {R"(\b(_?exit|quick_exit|abort|std::terminate)\s*\()", "the library does not end the program"},
    {"\\bshared_ptr\\b", "a value or a unique_ptr has one owner"},
    {R"(\bnew\s+[A-Za-z_:(]|\bmalloc\s*\()", "use a container for memory"},
    {R"(\busing\s+namespace\s+std\s*;)", "write std:: in full"},
};
const Ban kForeignLinkage = {R"(extern\s+"C"|\bcblas_)", "BLAS and LAPACK are declared and called in linalg"};
const std::vector<Ban> kBuildBans = {{"-ffast-math|-Ofast|-march=native|-ffp-contract=fast",
                                      "results must not depend on the machine that compiled"}};

enum class Strip { comments, comments_and_text };

// The code with comments (and string literals) blanked out; line breaks stay.
std::string strip(std::string_view code, Strip what) {
    std::string out(code);
    const auto blank = [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last && i < out.size(); ++i) {
            if (out[i] != '\n') out[i] = ' ';
        }
    };
    std::size_t i = 0;
    while (i < code.size()) {
        const auto rest = code.substr(i);
        std::size_t end = i + 1;
        if (rest.starts_with("//")) {
            end = std::min(code.find('\n', i), code.size());
            blank(i, end);
        } else if (rest.starts_with("/*")) {
            end = code.find("*/", i + 2);
            end = end == std::string_view::npos ? code.size() : end + 2;
            blank(i, end);
        } else if (rest.starts_with("R\"")) {
            const auto open = std::min(code.find('(', i), code.size());
            std::string close(")");
            close.append(code.substr(i + 2, open - i - 2)).append("\"");
            end = code.find(close, open);
            end = end == std::string_view::npos ? code.size() : end + close.size();
            if (what == Strip::comments_and_text) blank(i, end);
        } else if (code[i] == '"' ||
                   (code[i] == '\'' &&
                    (i == 0 || std::isalnum(static_cast<unsigned char>(code[i - 1])) == 0))) {
            while (end < code.size() && code[end] != code[i] && code[end] != '\n')
                end += code[end] == '\\' ? 2 : 1;
            end = std::min(end + 1, code.size());
            if (what == Strip::comments_and_text) blank(i, end);
        }
        i = end;
    }
    return out;
}

bool matches(const std::string& text, const std::string& pattern) {
    return std::regex_match(text, std::regex(pattern));
}

void find_ban(const std::string& path, const std::string& code, const Ban& ban, Problems& problems) {
    const std::regex pattern(ban.pattern);
    std::istringstream lines(code);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
        std::smatch found;
        if (std::regex_search(line, found, pattern)) {
            problems.push_back(path + ":" + std::to_string(number) + ": '" + found.str() +
                               "': " + ban.reason);
        }
    }
}

// "base" of src/imka/base/random.cpp, "apps" of apps/imka/main.cpp, "python" of python/src/module.cpp.
// imka.hpp, which includes the public headers, counts as a program.
std::string layer_of(const std::string& path) {
    if (path.starts_with("apps/") || path == "src/imka/imka.hpp") return "apps";
    if (path.starts_with("python/")) return "python";
    const std::string root = "src/imka/";
    const auto slash = path.find('/', root.size());
    return path.substr(root.size(), slash - root.size());
}

void check_own_include(const std::string& path, const std::string& header, Problems& problems) {
    if (!header.starts_with("imka/")) {
        if (!path.starts_with("apps/") && !path.starts_with("python/"))
            problems.push_back(path + ": \"" + header + "\" must begin with imka/");
        return;
    }
    const auto from = layer_of(path);
    const auto to = header.substr(5, header.find('/', 5) - 5);
    if (!kStep.contains(to)) {
        problems.push_back(path + ": \"" + header + "\": " + to + " is not a layer");
    } else if (from != to && kStep.at(to) >= kStep.at(from)) {
        problems.push_back(path + ": \"" + header + "\": " + from + " must not include " + to);
    }
}

void check_foreign_include(const std::string& path, const std::string& header, Problems& problems) {
    for (const auto& home : kHomes) {
        if (!matches(header, "(" + home.header + ").*")) continue;
        // The headers of train/torch/ belong to a separate library.
        const bool library_header =
            path.starts_with("src/") && path.ends_with(".hpp") && !path.starts_with("src/imka/train/torch/");
        if (library_header || !matches(path, home.files)) {
            problems.push_back(path + ": <" + header + "> may only be included in " + home.files);
        }
    }
}

void check_includes(const std::string& path, const std::string& text, Problems& problems) {
    const std::regex include(R"(#\s*include\s*([<"])([^>"]+)[>"])");
    const auto code = strip(text, Strip::comments);
    for (std::sregex_iterator it(code.begin(), code.end(), include), end; it != end; ++it) {
        if ((*it)[1] == "\"") {
            check_own_include(path, (*it)[2], problems);
        } else {
            check_foreign_include(path, (*it)[2], problems);
        }
    }
}

void check_words(const std::string& path, const std::string& text, Problems& problems) {
    find_ban(path, text, {"\\b(TODO|FIXME|XXX)\\b", "no to-do notes in the code"}, problems);
    if (!path.starts_with("src/")) return;
    const auto operator_new = std::regex("operator\\s+new");
    const auto code = std::regex_replace(strip(text, Strip::comments_and_text), operator_new, "operator_new");
    for (const auto& ban : kBans) {
        // Copies of an input read the same pipe, and the last one closes it.
        if (ban.pattern.find("shared_ptr") != std::string::npos &&
            std::regex_match(path, std::regex("src/imka/io/(byte_stream|raw_input)\\..pp")))
            continue;
        find_ban(path, code, ban, problems);
    }
    if (layer_of(path) != "linalg") find_ban(path, strip(text, Strip::comments), kForeignLinkage, problems);
}

// `has_header`: a header of the same name describes both files.
void check_beginning(const std::string& path, const std::string& text, bool has_header, Problems& problems) {
    const bool header = path.ends_with(".hpp") || path.ends_with(".cuh");
    if ((header || !has_header) && !std::regex_search(text, std::regex("^// \\S.{14,}"))) {
        problems.push_back(path + ": the first line must be a comment that says what the file is for");
    }
    if (header && !std::regex_search(text, std::regex("\n#pragma once\n"))) {
        problems.push_back(path + ": lacks #pragma once");
    }
}

Problems check_source(const std::string& path, const std::string& text, bool has_header = true) {
    Problems problems;
    if (!kStep.contains(layer_of(path))) return {path + ": its folder is not a layer"};
    check_includes(path, text, problems);
    check_words(path, text, problems);
    check_beginning(path, text, has_header, problems);
    return problems;
}

Problems check_build_file(const std::string& path, const std::string& text) {
    Problems problems;
    const auto code = std::regex_replace(text, std::regex("#[^\n]*"), "");
    for (const auto& ban : kBuildBans) find_ban(path, code, ban, problems);
    return problems;
}

std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<fs::path> files_under(const fs::path& folder, const std::set<std::string>& endings) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file() && endings.contains(entry.path().extension().string())) {
            files.push_back(entry.path());
        }
    }
    return files;
}

const fs::path kRoot = source_dir();
const std::string kHead = "// A header that says what it is for.\n#pragma once\n";

TEST(Layers, HoldInTheWholeTree) {
    std::size_t files = 0;
    for (const auto* folder : {"src/imka", "apps", "python/src"}) {
        for (const auto& file : files_under(kRoot / folder, {".hpp", ".cpp", ".cu", ".cuh"})) {
            const auto path = fs::relative(file, kRoot).string();
            const bool has_header = fs::exists(fs::path(file).replace_extension(".hpp"));
            EXPECT_THAT(check_source(path, read(file), has_header), IsEmpty());
            ++files;
        }
    }
    EXPECT_GT(files, 20U) << "the tree was not found under " << kRoot;
}

TEST(Layers, BuildFilesHaveNoFlagsThatChangeResults) {
    auto files = files_under(kRoot / "cmake", {".cmake", ".in"});
    for (const auto* folder : {"src", "apps", "tests", "examples"}) {
        for (const auto& file : files_under(kRoot / folder, {".txt", ".cmake"})) files.push_back(file);
    }
    files.push_back(kRoot / "CMakeLists.txt");
    files.push_back(kRoot / "CMakePresets.json");
    EXPECT_GT(files.size(), 8U);
    for (const auto& file : files) EXPECT_THAT(check_build_file(file.string(), read(file)), IsEmpty());
}

TEST(LayerCheck, AcceptsEarlierLayersAndItself) {
    const auto text =
        kHead + "#include <vector>\n#include \"imka/base/error.hpp\"\n#include \"imka/omega/omega.hpp\"\n";
    EXPECT_THAT(check_source("src/imka/omega/rff.hpp", text), IsEmpty());
}

TEST(LayerCheck, FindsPeersAndLaterLayers) {
    const auto message = [](const std::string& path, const std::string& header) {
        return check_source(path, kHead + "#include \"" + header + "\"\n");
    };
    EXPECT_THAT(message("src/imka/data/a.hpp", "imka/kernel/kernel.hpp"),
                Contains(HasSubstr("data must not include kernel")));
    EXPECT_THAT(message("src/imka/base/a.hpp", "imka/data/csv.hpp"),
                Contains(HasSubstr("base must not include data")));
    EXPECT_THAT(message("src/imka/learn/a.hpp", "imka/attention/favor.hpp"),
                Contains(HasSubstr("must not include")));
    EXPECT_THAT(message("src/imka/base/a.hpp", "imka/nowhere/x.hpp"), Contains(HasSubstr("is not a layer")));
    EXPECT_THAT(message("src/imka/base/a.hpp", "error.hpp"), Contains(HasSubstr("must begin with imka/")));
    EXPECT_THAT(check_source("src/imka/stuff/a.hpp", kHead),
                Contains(HasSubstr("its folder is not a layer")));
}

TEST(LayerCheck, FindsThirdPartyHeadersOutsideTheirFiles) {
    const auto problems = [](const std::string& path, const std::string& header) {
        return check_source(path, kHead + "#include <" + header + ">\n");
    };
    EXPECT_THAT(problems("src/imka/io/yaml.cpp", "yaml-cpp/yaml.h"), IsEmpty());
    EXPECT_THAT(problems("src/imka/linalg/gemm.cpp", "cblas.h"), IsEmpty());
    for (const auto* header : {"cblas.h", "lapacke.h", "Eigen/Dense", "yaml-cpp/yaml.h", "nlohmann/json.hpp",
                               "curl/curl.h", "openssl/evp.h", "zlib.h", "CLI/CLI.hpp"}) {
        EXPECT_THAT(problems("src/imka/omega/orf.cpp", header),
                    Contains(HasSubstr("may only be included in")))
            << header;
    }
    EXPECT_THAT(problems("python/src/module.hpp", "nanobind/nanobind.h"), IsEmpty());
    EXPECT_THAT(problems("apps/imka/main.cpp", "nanobind/nanobind.h"),
                Contains(HasSubstr("may only be included in")));
    EXPECT_THAT(problems("src/imka/base/config.hpp", "fmt/format.h"),
                Contains(HasSubstr("may only be included in")));
    EXPECT_THAT(problems("src/imka/linalg/gemm.hpp", "cblas.h"),
                Contains(HasSubstr("may only be included in")));
}

TEST(LayerCheck, FindsBannedWords) {
    for (const auto* code :
         {"int x = std::rand();", "std::mt19937 g;", "std::random_device d;", "auto* v = std::getenv(\"X\");",
          "printf(\"x\");", "std::fprintf(stderr, \"x\");", "fmt::print(\"x\");", "std::cout << 1;",
          "std::exit(3);", "exit (3);", "std::shared_ptr<int> p;", "auto* p = new int[3];",
          "auto* p = new (std::nothrow) int;", "malloc(3);", "using namespace std;",
          "extern \"C\" void dgemm_();", "cblas_sgemm();", "// TODO later"}) {
        EXPECT_EQ(check_source("src/imka/data/a.hpp", kHead + code + "\n").size(), 1U) << code;
    }
    EXPECT_THAT(check_source("src/imka/data/a.hpp", kHead + "\nabort();\n"),
                Contains(HasSubstr("a.hpp:4: 'abort('")));
}

TEST(LayerCheck, IgnoresCommentsStringsAndSimilarNames) {
    for (const auto* code :
         {"// printf and std::cout are for apps", "/* exit(1)\n new int */",
          "const auto* s = \"std::cout << exit(1)\";", "auto c = '\"'; auto n = 1'000'000; // new int",
          R"y(auto r = R"x(printf(")x";)y", "on_exit(); strand(); newest x;", "void* p = ::operator new(8);",
          "#include <new>", "snprintf_like();"}) {
        EXPECT_THAT(check_source("src/imka/data/a.hpp", kHead + code + "\n"), IsEmpty()) << code;
    }
    EXPECT_EQ(check_source("src/imka/data/a.hpp", kHead + "auto n = 1'000; printf('\"');\n").size(), 1U);
    EXPECT_THAT(check_source("apps/imka/main.cpp", kHead + "std::exit(1); fmt::print(\"x\");\n"), IsEmpty());
    EXPECT_THAT(check_source("src/imka/linalg/lapack.cpp", kHead + "extern \"C\" void dgeqrf_();\n"),
                IsEmpty());
}

TEST(LayerCheck, RequiresADescriptionAndAGuard) {
    EXPECT_THAT(check_source("src/imka/base/a.hpp", "#pragma once\n"), Contains(HasSubstr("first line")));
    EXPECT_THAT(check_source("src/imka/base/a.hpp", "// x\n#pragma once\n"),
                Contains(HasSubstr("first line")));
    EXPECT_THAT(check_source("src/imka/base/a.hpp", "// Something that matters.\n"),
                Contains(HasSubstr("#pragma once")));
    EXPECT_THAT(check_source("src/imka/base/a.cpp", "#include <vector>\n", true), IsEmpty());
    EXPECT_THAT(check_source("apps/imka/cmd_a.cpp", "#include <vector>\n", false),
                Contains(HasSubstr("first line")));
}

TEST(LayerCheck, FindsFlagsButNotCommentsAboutThem) {
    EXPECT_THAT(check_build_file("a.cmake", "# Never -ffast-math\nadd(-O2)\n"), IsEmpty());
    EXPECT_THAT(check_build_file("a.cmake", "add(-ffast-math)\n"), Contains(HasSubstr("a.cmake:1")));
    EXPECT_THAT(check_build_file("a.cmake", "add(-O3 -march=native)\n"),
                Contains(HasSubstr("-march=native")));
}

}  // namespace
