// Feeds arbitrary bytes to the reader of NPZ files.
#include <cstdint>

#include "feed_npz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_npz({reinterpret_cast<const char*>(data), size});
    return 0;
}
