// Elements of the fused operations of a GPU.
#pragma once

namespace imka::ops {

enum class FusedType { float32, bfloat16 };

}  // namespace imka::ops
