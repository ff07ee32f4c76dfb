// Feeds arbitrary text to the reader of recipes.
#include "feed_performer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_recipe({reinterpret_cast<const char*>(data), size});
    return 0;
}
