// Which instruction sets the ops are compiled for; included before Highway. All that it knows but those of
// Arm whose vectors have no fixed size (SVE), since the ops keep vectors in structs and arrays. A processor
// with SVE has NEON, which serves it.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
