// SPDX-License-Identifier: Apache-2.0
//
// What stands on the data of a receive port: beats of frames, and junk between them.

#pragma once

#include "monitor.h"

constexpr size_t MAX_COMMAND_FRAME = 65536;  // bytes of a frame that a command can bring

struct BeatDriver {
    explicit BeatDriver(uint32_t seed = 1) : random(seed) {}

    // Nobody may look at it.
    template <class Data, class Keep> void junk(Data& data, Keep& keep) {
        uint8_t bytes[LANES + KEEP_BYTES];
        for (uint8_t& byte : bytes) byte = uint8_t(random.next());
        std::memcpy(&data, bytes, LANES);
        std::memcpy(&keep, bytes + LANES, KEEP_BYTES);
    }

    // So many of the bytes, and zeros beyond them.
    template <class Data, class Keep>
    void beat(Data& data, Keep& keep, const uint8_t* bytes, size_t count) const {
        if (count == LANES) {
            std::memcpy(&data, bytes, LANES);
        } else {
            uint8_t padded[LANES] = {};
            std::memcpy(padded, bytes, count);
            std::memcpy(&data, padded, LANES);
        }
        std::memcpy(&keep, keeps_.mask[count], KEEP_BYTES);
    }

    Random random;

private:
    const KeepTable keeps_;
};
