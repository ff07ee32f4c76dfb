#include "imka/data/fetch.hpp"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "imka/base/error.hpp"
#include "imka/base/file.hpp"
#include "imka/base/version.hpp"

namespace imka {
namespace {

void init_curl() {
    // Initialised once and never cleaned up: other parts of the process may use libcurl too.
    static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (code != CURLE_OK) fail(ErrorCode::io, "cannot initialise libcurl");
}

// The partial file of one download, locked against other processes.
class PartFile {
public:
    explicit PartFile(std::filesystem::path path) : path_(std::move(path)) {
        descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (descriptor_ < 0) fail_errno("cannot be written");
        if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
            close(descriptor_);
            fail(ErrorCode::io, fmt::format("{}: another download is writing to it", path_.string()));
        }
    }
    ~PartFile() {
        // An empty file cannot be resumed.
        struct stat s {};
        if (fstat(descriptor_, &s) == 0 && s.st_size == 0) unlink(path_.c_str());
        close(descriptor_);
    }
    PartFile(const PartFile&) = delete;
    PartFile& operator=(const PartFile&) = delete;

    std::uint64_t size() const {
        struct stat s {};
        if (fstat(descriptor_, &s) != 0) fail_errno("cannot be read");
        return static_cast<std::uint64_t>(s.st_size);
    }
    void clear() {
        if (ftruncate(descriptor_, 0) != 0) fail_errno("cannot be written");
    }
    // Returns false and sets errno if the write fails.
    bool append(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t n = write(descriptor_, bytes.data(), bytes.size());
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(n));
        }
        return true;
    }
    void sync() {
        if (fsync(descriptor_) != 0) fail_errno("sync failed");
    }
    void rename_to(const std::filesystem::path& name) {
        if (rename(path_.c_str(), name.c_str()) != 0) fail_errno("rename failed");
    }
    const std::filesystem::path& path() const { return path_; }
    [[noreturn]] void fail_errno(std::string_view action) const {
        fail(ErrorCode::io, fmt::format("{}: {}: {}", path_.string(), action, errno_text()));
    }

private:
    std::filesystem::path path_;
    int descriptor_ = -1;
};

// State shared by the callbacks of one attempt.
struct Attempt {
    CURL* curl = nullptr;
    PartFile* part = nullptr;
    const Exec* exec = nullptr;
    Progress* progress = nullptr;
    std::uint64_t max_bytes = 0;
    std::uint64_t offset = 0;                  // bytes from earlier attempts
    std::optional<std::uint64_t> range_first;  // first byte according to the server
    bool begun = false;                        // the response body has started
    int write_errno = 0;
    bool too_large = false;
    bool wrong_range = false;
    long status = 0;
};

long status_of(CURL* curl) {
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
    auto& attempt = *static_cast<Attempt*>(user);
    constexpr std::string_view kName = "content-range: bytes ";
    std::string line(data, size * count);
    std::transform(line.begin(), line.end(), line.begin(), [](unsigned char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
    });
    if (line.starts_with(kName)) {
        std::uint64_t first = 0;
        const auto* begin = line.data() + kName.size();
        if (std::from_chars(begin, line.data() + line.size(), first).ec == std::errc{})
            attempt.range_first = first;
    }
    return size * count;
}

// Called at the first byte: a server may ignore the range request and send the whole file.
bool begin_body(Attempt& attempt) {
    attempt.begun = true;
    if (attempt.status == 200) {
        attempt.part->clear();
        attempt.offset = 0;
    } else if (attempt.status == 206 && attempt.range_first != attempt.offset) {
        attempt.wrong_range = true;
        return false;
    }
    return true;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
    auto& attempt = *static_cast<Attempt*>(user);
    const std::size_t bytes = size * count;
    attempt.status = status_of(attempt.curl);
    if (attempt.status != 200 && attempt.status != 206) return bytes;  // ignore the error page
    if (!attempt.begun && !begin_body(attempt)) return 0;
    if (attempt.part->size() + bytes > attempt.max_bytes) {
        attempt.too_large = true;
        return 0;
    }
    if (!attempt.part->append({data, bytes})) {
        attempt.write_errno = errno;
        return 0;
    }
    return bytes;
}

int on_progress(void* user, curl_off_t, curl_off_t now, curl_off_t, curl_off_t) {
    auto& attempt = *static_cast<Attempt*>(user);
    if (attempt.exec->cancel != nullptr && attempt.exec->cancel->load()) return 1;
    if (attempt.begun) attempt.progress->update(attempt.offset + static_cast<std::uint64_t>(now));
    return 0;
}

struct CurlDeleter {
    void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
using CurlHandle = std::unique_ptr<CURL, CurlDeleter>;

CurlHandle open_curl(const std::string& url, Attempt& attempt, const FetchOptions& options) {
    CurlHandle handle(curl_easy_init());
    if (!handle) fail(ErrorCode::io, "cannot initialise libcurl");
    CURL* curl = handle.get();
    attempt.curl = curl;
    const auto agent = fmt::format("imka/{}", build_info().version);
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_USERAGENT, agent.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(options.connect_timeout.count()));
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_timeout.count()));
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &attempt);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &attempt);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &attempt);
    if (attempt.offset > 0) {
        const auto range = fmt::format("{}-", attempt.offset);
        curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
    }
    return handle;
}

std::string status_text(long status) {
    switch (status) {
        case 401:
        case 403:
            return fmt::format("access denied by the server (HTTP {})", status);
        case 404:
        case 410:
            return fmt::format("file not found on the server (HTTP {})", status);
        default:
            return fmt::format("the server returned HTTP {}", status);
    }
}

// One attempt: returns nothing if the file is complete, else the reason of a temporary failure. Throws on
// permanent failures.
std::optional<std::string> attempt_download(const std::string& url, PartFile& part,
                                            const FetchOptions& options, const Exec& exec) {
    Progress progress(exec, fmt::format("download {}", url_file_name(url)), 0);
    Attempt attempt;
    attempt.part = &part;
    attempt.exec = &exec;
    attempt.progress = &progress;
    attempt.max_bytes = options.max_bytes;
    attempt.offset = part.size();
    const auto curl = open_curl(url, attempt, options);
    const CURLcode code = curl_easy_perform(curl.get());
    attempt.status = status_of(curl.get());
    check_cancelled(exec);
    if (attempt.write_errno != 0) {
        errno = attempt.write_errno;
        part.fail_errno("write failed");
    }
    if (attempt.too_large) {
        part.clear();
        fail(ErrorCode::bad_data,
             fmt::format("{}: larger than the limit of {} bytes", url, options.max_bytes));
    }
    if (attempt.wrong_range || attempt.status == 416) {
        // The partial file does not match the file on the server: restart.
        part.clear();
        return "the server cannot resume this download";
    }
    if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT)
        fail(ErrorCode::bad_usage, fmt::format("{}: not an http or https address", url));
    if (code != CURLE_OK) return curl_easy_strerror(code);
    if (attempt.status == 200 || attempt.status == 206) {
        if (!attempt.begun && attempt.status == 200) part.clear();  // an empty file
        return std::nullopt;
    }
    const bool may_pass = attempt.status == 408 || attempt.status == 429 || attempt.status >= 500;
    if (!may_pass) fail(ErrorCode::io, fmt::format("{}: {}", url, status_text(attempt.status)));
    return status_text(attempt.status);
}

void wait(std::chrono::milliseconds time, const Exec& exec) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
        check_cancelled(exec);
        std::this_thread::sleep_for(std::min(time, std::chrono::milliseconds(50)));
    }
}

void download(const std::string& url, PartFile& part, const FetchOptions& options, const Exec& exec) {
    auto pause = options.backoff;
    for (int attempt = 0;; ++attempt) {
        check_cancelled(exec);
        const auto reason = attempt_download(url, part, options, exec);
        if (!reason) break;
        if (attempt >= options.retries) {
            const auto kept = part.size() == 0
                                  ? std::string()
                                  : fmt::format("; the partial file {} is kept and the next fetch resumes it",
                                                part.path().string());
            fail(ErrorCode::io, fmt::format("{}: {} ({} attempts){}", url, *reason, attempt + 1, kept));
        }
        note(exec, fmt::format("{}: {}; retrying", url, *reason));
        wait(pause, exec);
        pause *= 2;
    }
    part.sync();
}

std::string address_of(const RegisteredSet& set, const SourceFile& file, const FetchOptions& options) {
    if (options.base_url.empty()) return file.url;
    auto base = options.base_url;
    while (base.ends_with('/')) base.pop_back();
    return fmt::format("{}/{}/{}", base, set.folder, file.url.substr(file.url.find_last_of('/') + 1));
}

// Renames the partial file to its final name if its table is correct. If a resumed download is wrong, the
// file may have changed on the server in between: clears the partial file and returns false.
bool accept(PartFile& part, const SourceFile& file, const std::filesystem::path& target, bool continued) {
    try {
        read_known_table(part.path(), file);
    } catch (const Error& e) {
        if (e.code() != ErrorCode::bad_data) throw;
        if (continued) {
            part.clear();
            return false;
        }
        auto aside = target;
        aside += ".rejected";
        part.rename_to(aside);
        fail(ErrorCode::bad_data,
             fmt::format("downloaded file rejected, kept as {}: {}", aside.string(), e.what()));
    }
    part.rename_to(target);
    return true;
}

void fetch_file(const RegisteredSet& set, const SourceFile& file, const std::filesystem::path& target,
                const FetchOptions& options, const Exec& exec) {
    const auto url = address_of(set, file, options);
    auto path = target;
    path += ".part";
    PartFile part(path);
    const bool continued = part.size() > 0;
    download(url, part, options, exec);
    if (accept(part, file, target, continued)) return;
    note(exec, fmt::format("{}: the resumed download is not correct; restarting", url));
    download(url, part, options, exec);
    accept(part, file, target, false);
}

bool is_right(const std::filesystem::path& path, const SourceFile& file, const Exec& exec) {
    try {
        read_known_table(path, file);
        return true;
    } catch (const Error& e) {
        if (e.code() != ErrorCode::bad_data) throw;
        note(exec, e.what());
        return false;
    }
}

}  // namespace

std::string url_file_name(const std::string& url) {
    init_curl();
    const auto last = url.substr(url.find_last_of('/') + 1);
    int length = 0;
    const std::unique_ptr<char, decltype(&curl_free)> decoded(
        curl_easy_unescape(nullptr, last.c_str(), static_cast<int>(last.size()), &length), &curl_free);
    std::string name(decoded ? decoded.get() : "", static_cast<std::size_t>(length));
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
        fail(ErrorCode::bad_config, fmt::format("{}: does not end with a file name", url));
    }
    return name;
}

std::vector<FetchedFile> fetch_dataset(const RegisteredSet& set, const FetchOptions& options,
                                       const Exec& exec) {
    init_curl();
    if (options.data_dir.empty()) fail(ErrorCode::bad_usage, "no data directory; set one with --data-dir");
    const auto folder = options.data_dir / set.folder;
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        fail(ErrorCode::io, fmt::format("{}: cannot be created: {}", folder.string(), error.message()));
    std::vector<FetchedFile> files;
    for (const auto& file : set.files) {
        const auto target = folder / url_file_name(file.url);
        const auto present = find_source(set, file, options.data_dir);
        if (present && is_right(*present, file, exec)) {
            files.push_back({.path = *present, .downloaded = false});
            continue;
        }
        if (present && *present != target) {
            fail(ErrorCode::bad_data,
                 fmt::format(
                     "{}: not the expected table, and it would hide a new download; move it away first",
                     present->string()));
        }
        fetch_file(set, file, target, options, exec);
        files.push_back({.path = target, .downloaded = true});
    }
    return files;
}

}  // namespace imka
