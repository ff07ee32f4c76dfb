// The imka program with training: `imka train` runs it, so that other commands do not have to load LibTorch.
#include <malloc.h>

#include "imka/train/trainer.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
    // A training step on the processor allocates the same large tensors as the previous step. Keeping the
    // memory avoids page faults, which take half of the time.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    return imka::app::run_program(argc, argv, imka::train);
}
