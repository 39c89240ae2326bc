// SPDX-License-Identifier: Apache-2.0
//
// Those who ask for registers beside the command stream, through a Unix-domain socket;
// `flytrim.driver.socket_bus` has the protocol.

#pragma once

#include <poll.h>
#include <sys/socket.h>

#include "registers.h"

constexpr unsigned ASKING_CYCLES = 64;  // from one look at the sockets to the next

class Clients {
public:
    // A bound socket, which may begin to listen at any time; negative where nobody is to ask.
    explicit Clients(int listener) : listener_(listener) {
        if (listener_ >= 0) polled_.push_back({listener_, POLLIN, 0});
    }

    // Once in so many cycles: whether somebody asks, and what. Whoever asked last is heard last.
    bool next(Access& access) {
        if (listener_ < 0 || ++cycles_ % ASKING_CYCLES) return false;
        if (::poll(polled_.data(), polled_.size(), 0) <= 0) return false;
        if (polled_[0].revents & POLLIN) {
            const int client = ::accept(listener_, nullptr, nullptr);
            if (client >= 0) polled_.push_back({client, POLLIN, 0});
        }
        for (size_t at = 1; at < polled_.size(); ++at) {
            if (!polled_[at].revents) continue;
            switch (take(polled_[at], access)) {
            case PART: break;
            case WHOLE:
                std::rotate(polled_.begin() + at, polled_.begin() + at + 1, polled_.end());
                return true;
            case NONSENSE:
                ::close(polled_[at].fd);
                polled_.erase(polled_.begin() + at--);
            }
        }
        return false;
    }

    void answer(const Access& access) {
        uint8_t bytes[8] = {access.response};
        std::memcpy(bytes + 4, &access.data, 4);
        // Whoever does not take its answers gets no more of them; the next look finds it gone.
        if (::send(access.client, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            ::shutdown(access.client, SHUT_RDWR);
    }

    // Nobody is heard any more; the end of the program is the end of their connections.
    void close() { listener_ = -1; }

private:
    enum Found { PART, WHOLE, NONSENSE };

    static Found take(const pollfd& polled, Access& access) {
        uint8_t bytes[12];
        const ssize_t n = ::recv(polled.fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
        if (n <= 0) return NONSENSE;
        if (bytes[0] != WRITE && bytes[0] != READ) return NONSENSE;
        if (size_t(n) < sizeof bytes) return polled.revents & POLLHUP ? NONSENSE : PART;
        ::recv(polled.fd, bytes, sizeof bytes, 0);
        access = {bytes[0] == WRITE, 0, 0, polled.fd};
        std::memcpy(&access.address, bytes + 4, 4);
        std::memcpy(&access.data, bytes + 8, 4);
        return WHOLE;
    }

    int listener_;
    unsigned cycles_ = 0;
    std::vector<pollfd> polled_;  // the listener, then the clients, those who asked last at the end
};
