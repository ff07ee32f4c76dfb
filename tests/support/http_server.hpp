// A small HTTP server on 127.0.0.1 for download tests. It serves the given files and can simulate failures.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

class HttpServer {
public:
    struct Behaviour {
        bool ranges = true;         // answer Range requests with 206; else with the whole file
        std::size_t cut_after = 0;  // close the connection after this many body bytes; 0: never
        int cuts = 0;               // number of responses to cut
        int busy = 0;               // number of initial requests answered with 503
    };

    HttpServer(std::map<std::string, std::string> files, Behaviour behaviour)
        : files_(std::move(files)), behaviour_(behaviour) {
        listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
            listen(listener_, 8) != 0 ||
            getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
            throw std::runtime_error("no test server");
        }
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { serve(); });
    }
    ~HttpServer() {
        shutdown(listener_, SHUT_RDWR);
        thread_.join();
        close(listener_);
    }
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
    // First line and Range header of each request, such as "GET /a/b HTTP/1.1 [bytes=10-]".
    std::vector<std::string> requests() const {
        const std::scoped_lock lock(mutex_);
        return requests_;
    }

private:
    void serve() {
        while (true) {
            const int client = accept(listener_, nullptr, nullptr);
            if (client < 0) return;
            answer(client);
            close(client);
        }
    }

    void answer(int client) {
        std::string request;
        char buffer[4096];
        while (request.find("\r\n\r\n") == std::string::npos) {
            const auto n = recv(client, buffer, sizeof(buffer), 0);
            if (n <= 0) return;
            request.append(buffer, static_cast<std::size_t>(n));
        }
        const auto range = header(request, "Range: ");
        {
            const std::scoped_lock lock(mutex_);
            requests_.push_back(request.substr(0, request.find("\r\n")) + " [" + range + "]");
        }
        if (behaviour_.busy > 0) {
            --behaviour_.busy;
            return send_all(client,
                            "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy");
        }
        const auto begin = request.find(' ') + 1;
        const auto file = files_.find(request.substr(begin, request.find(' ', begin) - begin));
        if (file == files_.end())
            return send_all(client, "HTTP/1.1 404 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnone");
        send_file(client, file->second, range);
    }

    void send_file(int client, std::string_view body, const std::string& range) {
        std::string head = "HTTP/1.1 200 OK\r\n";
        if (behaviour_.ranges && range.starts_with("bytes=")) {
            const auto first = std::stoull(range.substr(6));
            if (first >= body.size())
                return send_all(client,
                                "HTTP/1.1 416 Range\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            head = "HTTP/1.1 206 Partial\r\nContent-Range: bytes " + std::to_string(first) + "-" +
                   std::to_string(body.size() - 1) + "/" + std::to_string(body.size()) + "\r\n";
            body.remove_prefix(first);
        }
        send_all(client,
                 head + "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n");
        if (behaviour_.cuts > 0) {
            --behaviour_.cuts;
            body = body.substr(0, behaviour_.cut_after);
        }
        send_all(client, body);
    }

    static std::string header(const std::string& request, const std::string& name) {
        const auto at = request.find("\r\n" + name);
        if (at == std::string::npos) return "";
        const auto begin = at + 2 + name.size();
        return request.substr(begin, request.find("\r\n", begin) - begin);
    }

    static void send_all(int client, std::string_view bytes) {
        while (!bytes.empty()) {
            const auto n = send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (n <= 0) return;
            bytes.remove_prefix(static_cast<std::size_t>(n));
        }
    }

    std::map<std::string, std::string> files_;
    Behaviour behaviour_;
    int listener_ = -1;
    std::uint16_t port_ = 0;
    mutable std::mutex mutex_;
    std::vector<std::string> requests_;
    std::thread thread_;
};
