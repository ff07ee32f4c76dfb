# Shared by the scripts: path of the repository, messages, builds. Sourced, not run.
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit

say() { printf '\n== %s\n' "$*"; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit "${code:-1}"
}

# scripts/setup --test installs the optional parts: without them tests would be skipped silently. GPU code is compiled if nvcc
# is installed; scripts/setup does not install it.
parts=(-DIMKA_MPI=ON -DIMKA_ONNX=ON -DIMKA_TORCH=ON -DIMKA_CUDA=AUTO)

# Builds the preset $1 (everything, or the targets that follow).
build() {
    local preset=$1
    shift
    cmake --preset "$preset" "${parts[@]}" >"build/$preset.configure.log" 2>&1 || {
        cat "build/$preset.configure.log" >&2
        die "the preset $preset could not be configured"
    }
    cmake --build "build/$preset" ${1:+--target "$@"}
}

# C++ files of the repository (tracked or new), except files that git ignores.
cpp_files() { git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' '*.cu' | while read -r f; do [[ -e $f ]] && echo "$f"; done; }

check_format() {
    cpp_files | xargs -r clang-format --dry-run -Werror || die "run clang-format -i on the files above"
    echo "$(cpp_files | wc -l) files are formatted"
}

# Runs clang-tidy on the given .cpp files; needs the compile commands of the preset tidy. clang does not compile the headers
# of Debian's LibTorch, so training is left out.
run_tidy() {
    local files
    mapfile -t files < <(printf '%s\n' "$@" | grep -Ev '^$|/train/torch/|/main_train[.]cpp$|^tests/train_torch/|^bench/train_step')
    set -- "${files[@]}"
    (($# > 0)) || {
        echo "no files to check"
        return 0
    }
    cmake --preset tidy "${parts[@]}" >build/tidy.configure.log 2>&1 || {
        cat build/tidy.configure.log >&2
        die "the preset tidy could not be configured"
    }
    # Generated sources (embedded data) are not checked, so nothing has to be built first.
    printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/tidy --quiet 2> >(grep -v 'warnings generated' >&2)
    echo "$# files are clean"
}

# Folders whose tests run under the address sanitizer at every change: all except the statistical tests, which are slow, the
# system tests, which test the program, and training, whose library has no sanitizers.
sanitizer_folders() {
    local file
    for file in tests/*/*_test.cpp; do
        file=${file%/*}
        case $file in */property | */system | */train_torch) ;; *) echo "${file##*/}" ;; esac
    done | sort -u
}
# Tests of statistics, searches and races in these folders: slow, and other tests cover the same code. scripts/check asan runs them.
# shellcheck disable=SC2034 # used by scripts/test
slow_under_sanitizers='FastLaw.*:Pack.IsProven*:Pack.BoundsAnd*:Map.OfRandomMatrices*:MapEnergy.*:KnownExperiments.*:Linalg.CallsFromManyThreadsGiveTheBitsTheyGiveAlone:Claim.NeverHasTwoHoldersWhileItsFileComesAndGoes'

mkdir -p build
