// Element types of the fused GPU operations.
#pragma once

namespace imka::ops {

enum class FusedType { float32, bfloat16 };

}  // namespace imka::ops
