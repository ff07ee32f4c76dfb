// Feeds arbitrary settings to the reader of model files.
#include "feed_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_model({reinterpret_cast<const char*>(data), size});
    return 0;
}
