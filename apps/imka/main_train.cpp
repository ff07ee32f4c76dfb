// The imka program with training: `imka train` calls it, so that no other command waits until LibTorch is
// loaded.
#include <malloc.h>

#include "imka/train/trainer.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
    // A step on the processor allocates the same large tensors as the one before. Keeping the memory saves
    // its page faults, which are half of the time.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    return imka::app::run_program(argc, argv, imka::train);
}
