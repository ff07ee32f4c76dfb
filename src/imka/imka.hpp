// The public interface in one header. These headers and everything they include are installed.
#pragma once

#include "imka/base/error.hpp"
#include "imka/base/exec.hpp"
#include "imka/base/matrix.hpp"
#include "imka/base/random.hpp"
#include "imka/base/version.hpp"
#include "imka/chip/analyse/cost.hpp"
#include "imka/chip/spec/chip.hpp"
#include "imka/data/dataset.hpp"
#include "imka/data/synthetic.hpp"
#include "imka/features/feature_map.hpp"
#include "imka/features/project_chip.hpp"
#include "imka/kernel/kernel.hpp"
#include "imka/learn/kernel_ridge.hpp"
#include "imka/learn/ridge_model.hpp"
#include "imka/metrics/metrics.hpp"
#include "imka/omega/omega.hpp"
