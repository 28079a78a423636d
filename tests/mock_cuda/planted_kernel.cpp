// A kernel that check_device_code.py complains of: an array under an index that is no constant, and large arguments.
#include <array>

#include <Kokkos_Core.hpp>

namespace {

struct Planted {
  std::array<float, 200> arguments;
  float* to;

  KOKKOS_INLINE_FUNCTION void operator()(int i) const {
    float numbers[16];
    for (int j = 0; j < 16; ++j) numbers[(j * i) % 16] = arguments[static_cast<std::size_t>(i + j)];
    to[i] = numbers[i % 16] + numbers[i / 16];
  }
};

}  // namespace

void planted_kernel(float* to) { Kokkos::parallel_for("planted", 64, Planted{{}, to}); }
