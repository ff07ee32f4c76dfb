# Compiler flags. -ffp-contract=off: a sum must not change its bits with the compiler's taste for fused
# multiply-add. Never -ffast-math and never -march=native: code for wider machines is chosen at run time.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release)
endif()
find_program(IMKA_CCACHE ccache)
if(IMKA_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${IMKA_CCACHE})
endif()

add_library(imka_flags INTERFACE)
# Fields left out of a designated initialiser take their defaults: that is what configurations are for.
target_compile_options(imka_flags INTERFACE -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                            -Wno-missing-field-initializers -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 reports overflows that cannot happen inside inlined standard containers.
    target_compile_options(imka_flags INTERFACE -Wno-error=stringop-overflow -Wno-restrict -Wno-error=array-bounds
                                                -Wno-error=maybe-uninitialized)
endif()
if(IMKA_SANITIZE)
    add_compile_options(-fsanitize=${IMKA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${IMKA_SANITIZE})
endif()
