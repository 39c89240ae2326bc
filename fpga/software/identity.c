// SPDX-License-Identifier: Apache-2.0
// Prints what a flytrim device is, and registers nothing.
//
//     cc -Wall -Werror -I../registers identity.c -o identity
//     ./identity /sys/bus/pci/devices/0000:01:00.0/resource0 [OFFSET]
//
// OFFSET, in hexadecimal, is where the registers start in the file.
//
// The file is one that maps the device's registers into memory: a BAR, or a UIO device. Exit status
// 1 where it holds no flytrim device, 2 where it cannot be mapped.

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "flytrim_registers.h"

#define FIELD(word, field) (((word) & field##_bm) >> field##_bp)

// Registers are read as words of 32 bits, whatever the compiler would make of a packed struct.
static uint32_t read_register(const volatile void *device, size_t at) {
    return *(const volatile uint32_t *)((const volatile char *)device + at);
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s FILE [OFFSET]\n", argv[0]);
        return 2;
    }
    char *end = "";
    const off_t offset = argc > 2 ? strtoll(argv[2], &end, 16) : 0;
    if (*end) {
        fprintf(stderr, "%s: is no hexadecimal offset\n", argv[2]);
        return 2;
    }
    const int file = open(argv[1], O_RDWR | O_SYNC);
    const volatile void *device = file < 0 ? MAP_FAILED : mmap(
        NULL, sizeof(flytrim_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, offset);
    if (device == MAP_FAILED) {
        fprintf(stderr, "%s: cannot be opened as a device: %s\n", argv[1], strerror(errno));
        return 2;
    }
    // What is mapped beyond the end of a file cannot be read. A device has no size.
    struct stat status;
    if (!fstat(file, &status) && S_ISREG(status.st_mode)
        && status.st_size - offset < (off_t)sizeof(flytrim_t)) {
        fprintf(stderr, "%s: is too short to hold the registers of a device\n", argv[1]);
        return 2;
    }
    const uint32_t magic = read_register(device, offsetof(flytrim_t, id));
    if (magic != FLYTRIM__ID__MAGIC_reset) {
        fprintf(stderr, "%s: register id reads 0x%08x, not 0x%08x: this is no flytrim device\n",
                argv[1], (unsigned)magic, (unsigned)FLYTRIM__ID__MAGIC_reset);
        return 1;
    }
    const uint32_t version = read_register(device, offsetof(flytrim_t, version));
    const uint32_t capability = read_register(device, offsetof(flytrim_t, capability));
    const uint32_t max_frame = read_register(device, offsetof(flytrim_t, max_frame));
    printf("flytrim %u.%u.%u, commit %08x: %u bits a beat, %u flows, frames of up to %u bytes\n",
           (unsigned)FIELD(version, FLYTRIM__VERSION__MAJOR),
           (unsigned)FIELD(version, FLYTRIM__VERSION__MINOR),
           (unsigned)FIELD(version, FLYTRIM__VERSION__PATCH),
           (unsigned)read_register(device, offsetof(flytrim_t, build)),
           (unsigned)FIELD(capability, FLYTRIM__CAPABILITY__WIDTH),
           (unsigned)FIELD(capability, FLYTRIM__CAPABILITY__FLOWS),
           (unsigned)FIELD(max_frame, FLYTRIM__MAX_FRAME__BYTES));
    return 0;
}
