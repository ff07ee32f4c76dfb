// IMKA_ON_BOTH: functions that the processor and GPUs share.
#pragma once

#if defined(__CUDACC__)
#define IMKA_ON_BOTH __host__ __device__
#else
#define IMKA_ON_BOTH
#endif
