// Feeds arbitrary bytes to the reader of files of programmed chips.
#include <cstdint>

#include "feed_chip_matrix.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_chip_matrix({reinterpret_cast<const char*>(data), size});
    return 0;
}
