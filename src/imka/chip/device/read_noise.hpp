// 1/f noise of reads. Its power grows with the logarithm of the time it had to build up, so it is split by
// the time between two reads: what is slower is frozen, what is faster is new with every read.
#pragma once

#include "imka/chip/device/device.hpp"

namespace imka {

// When a conductance is read.
struct ReadTime {
    double seconds = 0.0;           // since the end of programming; >= 0
    double spacing_seconds = 1e-3;  // between two matrix-vector products; >= 0
};
void validate(const ReadTime& time);

// Standard deviations relative to g for Q_s = 1. The total,
// sqrt(ln((t_0 + seconds + t_read) / (2 t_read))), is the root of the sum of the squares of the parts; the
// fresh part is sqrt(ln((spacing + t_read) / (2 t_read))), and 0 where products follow each other faster than
// that. Then each is multiplied by its scale in the model.
struct ReadNoiseParts {
    double frozen = 0.0;
    double fresh = 0.0;
};
ReadNoiseParts read_noise_parts(const DeviceModel& model, const ReadTime& time);

}  // namespace imka
