// Feeds arbitrary bytes to the LIBSVM reader.
#include "feed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_libsvm({reinterpret_cast<const char*>(data), size});
    return 0;
}
