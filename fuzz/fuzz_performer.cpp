// Feeds arbitrary metadata to the reader of trained models.
#include "feed_performer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_performer({reinterpret_cast<const char*>(data), size});
    return 0;
}
