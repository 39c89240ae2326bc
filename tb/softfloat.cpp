// SPDX-License-Identifier: Apache-2.0
// Calls a function of Berkeley SoftFloat on arrays; SoftFloat itself is in another library, and the
// addresses of its function and of its exception flags are given.

#include <cstdint>

extern "C" void each_pair(uint64_t count, uint32_t (*function)(uint32_t, uint32_t), uint8_t* raised,
                          const uint32_t* a, const uint32_t* b, uint32_t* z, uint8_t* flags) {
    for (uint64_t n = 0; n < count; ++n) {
        *raised = 0;
        z[n] = function(a[n], b[n]);
        flags[n] = *raised;
    }
}

extern "C" void each_16_to_32(uint64_t count, uint32_t (*function)(uint16_t), uint8_t* raised,
                              const uint16_t* a, uint32_t* z, uint8_t* flags) {
    for (uint64_t n = 0; n < count; ++n) {
        *raised = 0;
        z[n] = function(a[n]);
        flags[n] = *raised;
    }
}

extern "C" void each_32_to_16(uint64_t count, uint16_t (*function)(uint32_t), uint8_t* raised,
                              const uint32_t* a, uint16_t* z, uint8_t* flags) {
    for (uint64_t n = 0; n < count; ++n) {
        *raised = 0;
        z[n] = function(a[n]);
        flags[n] = *raised;
    }
}
