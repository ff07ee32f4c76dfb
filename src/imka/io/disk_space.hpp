// Refuses outputs that cannot fit on the disk before they are written.
#pragma once

#include <filesystem>

namespace imka {

// Error{io} if the file system of `output` has less than `bytes` free. Passes if the free space is unknown.
void check_disk_space(const std::filesystem::path& output, double bytes);

}  // namespace imka
