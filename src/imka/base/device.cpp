#include "imka/base/device.hpp"

#include <fmt/format.h>

#include <charconv>

#include "imka/base/error.hpp"

namespace imka {

ComputeDevice parse_device(std::string_view text) {
    ComputeDevice device;
    if (text == "cpu") return device;
    device.kind = DeviceKind::cuda;
    if (text == "cuda") return device;
    if (text.starts_with("cuda:")) {
        const auto digits = text.substr(5);
        const auto* end = digits.data() + digits.size();
        const auto result = std::from_chars(digits.data(), end, device.number);
        if (result.ec == std::errc{} && result.ptr == end && device.number >= 0) return device;
    }
    fail(ErrorCode::bad_config,
         fmt::format("unknown device {}; expected cpu, cuda or cuda:N", in_quotes(text)));
}

std::string to_string(const ComputeDevice& device) {
    if (device.kind == DeviceKind::cpu) return "cpu";
    return fmt::format("cuda:{}", device.number);
}

}  // namespace imka
