// Ranks that do something else while they wait: messages of another transport, with a function that its waits call.
#pragma once

#include <functional>
#include <memory>

#include "comm/transport.hpp"

namespace petaflow {

/// All transports that come from one by split() share the function, which may be set later, and must not wait itself.
std::unique_ptr<Transport> make_polled_transport(std::unique_ptr<Transport> inner,
                                                 std::shared_ptr<const std::function<void()>> poll);

}  // namespace petaflow
