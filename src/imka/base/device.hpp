// Where hot operations run: on the processor or on a GPU.
#pragma once

#include <string>
#include <string_view>

#include "imka/base/names.hpp"

namespace imka {

enum class DeviceKind { cpu, cuda };
template <>
struct EnumNames<DeviceKind> {
    static constexpr std::string_view what = "device";
    static constexpr std::string_view values[] = {"cpu", "cuda"};
};

struct ComputeDevice {
    DeviceKind kind = DeviceKind::cpu;
    int number = 0;  // of the GPU, from 0
    bool operator==(const ComputeDevice&) const = default;
};

// "cpu", "cuda" (the first GPU) or "cuda:N". Error{bad_config} for anything else. Does not check that the
// GPU exists.
ComputeDevice parse_device(std::string_view text);
std::string to_string(const ComputeDevice& device);

}  // namespace imka
