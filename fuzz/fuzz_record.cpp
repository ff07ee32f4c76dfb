// Feeds arbitrary bytes to the reader of records.
#include "feed_experiment.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    imka::fuzz::feed_record({reinterpret_cast<const char*>(data), size});
    return 0;
}
