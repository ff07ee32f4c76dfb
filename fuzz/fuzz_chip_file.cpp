// Feeds arbitrary bytes to the reader of chip files.
#include <cstdint>

#include "feed_chip_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_chip_file({reinterpret_cast<const char*>(data), size});
    return 0;
}
