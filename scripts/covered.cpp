// SPDX-License-Identifier: Apache-2.0
//
// The replay harness around a device that counts its lines and toggles. The first argument is the
// file that the counts are written to at the end of the run.

#include <csignal>
#include <fstream>
#include <string>

#include "Vflytrim_nic.h"
#include "verilated.h"
#include "verilated_cov.h"

namespace {

// The command line's first argument, which the harness itself reads only where it records waves.
std::string counts_file() {
    std::ifstream arguments("/proc/self/cmdline");
    std::string argument;
    std::getline(arguments, argument, '\0');
    std::getline(arguments, argument, '\0');
    return argument;
}

// Counts are part of the device, so they are written before it goes.
class CoveredNic : public Vflytrim_nic {
public:
    // Whoever ends the program asks first, and then waits: that is not the time to stop.
    CoveredNic() { std::signal(SIGTERM, SIG_IGN); }
    ~CoveredNic() { contextp()->coveragep()->write(counts_file()); }
};

}  // namespace

#define Vflytrim_nic CoveredNic
#include "replay.cpp"
