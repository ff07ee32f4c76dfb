// 1/f noise of reads. Its power grows with the logarithm of the elapsed time. It is split at the time
// between two reads: slower noise is frozen, faster noise is new in every read.
#pragma once

#include "imka/chip/device/device.hpp"

namespace imka {

// When a conductance is read.
struct ReadTime {
    double seconds = 0.0;           // since the end of programming; >= 0
    double spacing_seconds = 1e-3;  // between two matrix-vector products; >= 0
};
void validate(const ReadTime& time);

// Standard deviations relative to g for Q_s = 1. The total, sqrt(ln((t_0 + seconds + t_read) / (2
// t_read))), is the root of the sum of squares of the parts. The fresh part is sqrt(ln((spacing + t_read)
// / (2 t_read))), or 0 for shorter spacings. Each part is then multiplied by its scale in the model.
struct ReadNoiseParts {
    double frozen = 0.0;
    double fresh = 0.0;
};
ReadNoiseParts read_noise_parts(const DeviceModel& model, const ReadTime& time);

}  // namespace imka
