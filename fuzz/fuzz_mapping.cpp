// Feeds arbitrary bytes to the reader of mapping files.
#include <cstdint>

#include "feed_mapping.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_mapping({reinterpret_cast<const char*>(data), size});
    return 0;
}
