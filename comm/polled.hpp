// A transport that calls a function while it waits: so a parameter server inside a worker answers.
#pragma once

#include <functional>
#include <memory>

#include "comm/transport.hpp"

namespace petaflow {

/// All transports that come from one by split() share the function, which may be set later, and must not wait itself.
std::unique_ptr<Transport> make_polled_transport(std::unique_ptr<Transport> inner,
                                                 std::shared_ptr<const std::function<void()>> poll);

}  // namespace petaflow
