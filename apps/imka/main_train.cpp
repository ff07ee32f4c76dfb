// The imka program with training: `imka train` calls it, so that no other command waits until LibTorch is
// loaded.
#include "imka/train/trainer.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
    return imka::app::run_program(argc, argv, imka::train);
}
