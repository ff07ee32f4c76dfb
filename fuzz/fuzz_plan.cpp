// Feeds arbitrary bytes to the reader of deployed models.
#include <cstdint>

#include "feed_plan.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_plan({reinterpret_cast<const char*>(data), size});
    return 0;
}
