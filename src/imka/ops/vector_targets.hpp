// Selects the instruction sets that the ops are compiled for; include before Highway. All of Highway's except
// Arm SVE, whose vectors have no fixed size: the ops keep vectors in structs and arrays. Processors with SVE
// use NEON.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
