// Runs a test body once per instruction set that this machine supports and the library was compiled for.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "support/instruction_sets.hpp"

inline void for_each_instruction_set(const std::function<void()>& body) {
    const int count = on_each_instruction_set([&](const char* name) {
        SCOPED_TRACE(name);
        body();
    });
    ASSERT_GE(count, 1);
}
