// Feeds arbitrary bytes to the reader of ONNX models.
#include <cstdint>

#include "feed_onnx.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_onnx({reinterpret_cast<const char*>(data), size});
    return 0;
}
