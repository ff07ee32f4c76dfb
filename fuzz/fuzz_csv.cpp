// Feeds arbitrary bytes to the CSV reader.
#include "feed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_csv({reinterpret_cast<const char*>(data), size});
    return 0;
}
