#include "imka/base/version.hpp"

namespace imka {

BuildInfo build_info() {
    return {.version = IMKA_VERSION,
            .build_type = IMKA_BUILD_TYPE,
            .sanitize = IMKA_SANITIZE,
            .compiler = IMKA_COMPILER};
}

}  // namespace imka
