# Compiler flags. -ffp-contract=off: the bits of a sum must not depend on the compiler's use of fused multiply-add. Never
# -ffast-math or -march=native: code for wider instruction sets is selected at run time.
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
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${IMKA_CCACHE})
    if(IMKA_PCH)
        # ccache caches files that use a precompiled header only with this setting.
        set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
            CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${IMKA_CCACHE})
        add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>)
    endif()
endif()

# imka_pch(target header...): precompiles standard headers and the given ones for the target if IMKA_PCH is on. Sources must
# still include what they use: `scripts/check nopch` builds without.
set(IMKA_STD_HEADERS <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span>
                     <string> <string_view> <utility> <vector>)
function(imka_pch target)
    if(IMKA_PCH)
        target_precompile_headers(${target} PRIVATE ${IMKA_STD_HEADERS} ${ARGN})
    endif()
endfunction()

add_library(imka_flags INTERFACE)
# Omitted fields of a designated initialiser keep their defaults on purpose.
set(cxx_flags -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 reports overflows that cannot happen inside inlined standard containers.
    list(APPEND cxx_flags -Wno-error=stringop-overflow -Wno-restrict -Wno-error=array-bounds -Wno-error=maybe-uninitialized)
elseif(IMKA_UNITY)
    # In a unity build, clang also reports local names that hide names of another file in the group. Builds of single files
    # check shadowing.
    list(APPEND cxx_flags -Wno-shadow)
endif()
# nvcc: no fused multiply-add unless written, for the same reason; divisions and square roots are IEEE by default.
target_compile_options(imka_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:${cxx_flags}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-Werror=all-warnings;-Xcompiler=-ffp-contract=off,-Wall,-Wextra,-Wshadow,-Werror;-Xcompiler=-Wno-missing-field-initializers>")
if(IMKA_SANITIZE)
    # Host code in CUDA sources is compiled without sanitizers: compute-sanitizer checks it on a GPU.
    add_compile_options("$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-fsanitize=${IMKA_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
    add_link_options(-fsanitize=${IMKA_SANITIZE})
endif()

# imka_light(target): uses -O1 for code that parses, prints and checks, because optimisation took half of its compile time.
# Results do not change: every level keeps IEEE arithmetic.
function(imka_light target)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# imka_unity(target): compiles the .cpp files of a folder together, a few at a time, if IMKA_UNITY is on, because headers took
# most of the compile time. Names without linkage must differ within a folder. Ops are left out: they are compiled once per
# instruction set. Sources with their own options are left out too.
set(IMKA_UNITY_FILES 8)
if(IMKA_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Minimum heap in kB before g++ collects garbage: saves an eighth of the compile time.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>)
endif()
function(imka_unity target)
    if(NOT IMKA_UNITY)
        return()
    endif()
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "[.]cpp$")
    list(FILTER sources EXCLUDE REGEX "/ops/|/embed_")
    foreach(source ${sources})
        file(RELATIVE_PATH folder ${CMAKE_CURRENT_SOURCE_DIR} ${source})
        string(REGEX REPLACE "/.*|[^/]*[.]cpp$" "" folder ${folder})
        if(NOT DEFINED files_${folder})
            set(files_${folder} 0)
        endif()
        math(EXPR group "${files_${folder}} / ${IMKA_UNITY_FILES}")
        math(EXPR files_${folder} "${files_${folder}} + 1")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}${group}")
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
