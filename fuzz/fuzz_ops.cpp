// Feeds arbitrary values to the ops on every instruction set and compares with their references.
#include "feed_ops.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_ops({reinterpret_cast<const char*>(data), size});
    return 0;
}
