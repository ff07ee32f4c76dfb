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
    if(IMKA_PCH)
        # ccache caches files that use a precompiled header only when told that this is safe.
        set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
            CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${IMKA_CCACHE})
        add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>)
    endif()
endif()

# imka_pch(target header...): precompiles standard headers and these for the target, where IMKA_PCH is on. Sources
# still include what they use: `scripts/check nopch` builds without.
set(IMKA_STD_HEADERS <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span>
                     <string> <string_view> <utility> <vector>)
function(imka_pch target)
    if(IMKA_PCH)
        target_precompile_headers(${target} PRIVATE ${IMKA_STD_HEADERS} ${ARGN})
    endif()
endfunction()

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

# imka_light(target): code that parses, prints and checks. Half of its compile time went into optimising it; the
# library does the work. -O1 changes no result: every level keeps IEEE arithmetic.
function(imka_light target)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()
