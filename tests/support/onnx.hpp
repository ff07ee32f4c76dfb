// Skips tests of ONNX models in a build without ONNX.
#pragma once

#include <gtest/gtest.h>

#include "imka/graph/onnx_import.hpp"

#define IMKA_NEED_ONNX() \
    if (!imka::graph::has_onnx()) GTEST_SKIP() << "built without ONNX (libonnx-dev, libprotobuf-dev)"
