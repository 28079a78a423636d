#include "cosmoflow/lagrangian_field.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <Kokkos_Core.hpp>

#include "base/error.hpp"

namespace petaflow::cosmoflow {
namespace {

/// f(x) for each plane.
template <class F>
void for_each_plane(const char* label, const MeshShape& shape, const F& f) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, shape.n), f);
}

/// Wave numbers of odd derivatives: the mode n/2 has no sign, and so no derivative.
int odd_frequency(const MeshShape& shape, int index) { return 2 * index == shape.n ? 0 : shape.frequency(index); }

/// to(m) = f(indices of the mode, 1 / m^2, from(m)).
template <class F>
void map_modes(const char* label, const MeshField& from, MeshField& to, const F& f) {
  const MeshShape& shape = from.shape();
  for_each_plane(label, shape, [&](int x) {
    const int mx = shape.frequency(x);
    for (int y = 0; y < shape.n; ++y) {
      const int my = shape.frequency(y), base = mx * mx + my * my;
      const std::complex<float>* const in = from.modes(x, y);
      std::complex<float>* const out = to.modes(x, y);
      for (int z = 0; z < shape.modes(); ++z) {
        const int index[3] = {x, y, z}, m2 = std::max(base + z * z, 1);  // at 0 all that is asked for vanishes
        out[z] = f(index, 1.0F / static_cast<float>(m2), in[z]);
      }
    }
  });
}

/// -nabla phi where nabla^2 phi = from, times `factor`: i k / k^2 from, in cells.
void attraction(const MeshField& from, int axis, float factor, MeshField& to) {
  const MeshShape& shape = from.shape();
  const float cells = factor * static_cast<float>(shape.n / (2 * std::numbers::pi));
  map_modes("petaflow::cosmoflow::attraction", from, to,
            [&](const int(&index)[3], float inverse, const std::complex<float>& mode) {
              const float g = cells * static_cast<float>(odd_frequency(shape, index[axis])) * inverse;
              return std::complex<float>(-g * mode.imag(), g * mode.real());
            });
}

/// phi,ij where nabla^2 phi = from: k_i k_j / k^2 from.
void tide(const MeshField& from, int i, int j, MeshField& to) {
  const MeshShape& shape = from.shape();
  map_modes("petaflow::cosmoflow::tide", from, to,
            [&](const int(&index)[3], float inverse, const std::complex<float>& mode) {
              const int mi = i == j ? shape.frequency(index[i]) : odd_frequency(shape, index[i]);
              const int mj = i == j ? mi : odd_frequency(shape, index[j]);
              return static_cast<float>(mi * mj) * inverse * mode;
            });
}

}  // namespace

LagrangianField::LagrangianField(int n, double box)
    : shape_(n),
      box_(box),
      transform_(n),
      density_(shape_),
      first_{MeshField(shape_), MeshField(shape_), MeshField(shape_)},
      work_{MeshField(shape_), MeshField(shape_), MeshField(shape_)},
      second_{&work_[1], &work_[2], &density_} {
  PETAFLOW_REQUIRE(n % 2 == 0, "a mesh of {}^3", n);
}

void LagrangianField::start(std::span<const float> noise, const std::function<double(double)>& power) {
  const int n = shape_.n, half = n / 2;
  const double cells = std::pow(n, 3), volume = std::pow(box_, 3);
  PETAFLOW_REQUIRE(noise.size() == static_cast<std::size_t>(cells), "{} numbers for {}^3 cells", noise.size(), n);
  std::vector<float> amplitude(static_cast<std::size_t>(3 * half * half + 1), 0.0F);  // by the square of the mode
  Kokkos::parallel_for(
      "petaflow::cosmoflow::amplitudes",
      Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(1, static_cast<int>(amplitude.size())), [&](int m2) {
        const double k = 2 * std::numbers::pi / box_ * std::sqrt(m2);
        amplitude[static_cast<std::size_t>(m2)] = static_cast<float>(std::sqrt(power(k) / (volume * cells)));
      });
  for_each_plane("petaflow::cosmoflow::noise", shape_, [&](int x) {
    for (int y = 0; y < n; ++y) {
      const std::size_t at = (static_cast<std::size_t>(x) * n + static_cast<std::size_t>(y)) * n;
      std::copy_n(noise.data() + at, n, density_.real(x, y));
    }
  });
  transform_.forward(density_);
  for_each_plane("petaflow::cosmoflow::spectrum", shape_, [&](int x) {
    const int mx = shape_.frequency(x);
    for (int y = 0; y < n; ++y) {
      const int my = shape_.frequency(y), base = mx * mx + my * my;
      std::complex<float>* const modes = density_.modes(x, y);
      for (int z = 0; z < shape_.modes(); ++z) {
        const int m2 = base + z * z;
        modes[z] *= amplitude[static_cast<std::size_t>(m2)];
      }
    }
  });
}

std::vector<float> LagrangianField::density() {
  const int n = shape_.n;
  std::vector<float> field(static_cast<std::size_t>(n) * n * n);
  MeshField& copy = work_[0];
  std::copy_n(density_.modes(0, 0), shape_.complex_size(), copy.modes(0, 0));
  transform_.backward(copy);
  for (int x = 0; x < n; ++x) {
    for (int y = 0; y < n; ++y) {
      std::copy_n(copy.real(x, y), n,
                  field.data() + (static_cast<std::size_t>(x) * n + static_cast<std::size_t>(y)) * n);
    }
  }
  return field;
}

void LagrangianField::displace() {
  const int n = shape_.n;
  for (int axis = 0; axis < 3; ++axis) {
    MeshField& field = first_[static_cast<std::size_t>(axis)];
    attraction(density_, axis, 1, field);
    transform_.backward(field);
  }
  // The source of the second order, in work_[0].
  for (int axis = 0; axis < 3; ++axis) {
    MeshField& field = work_[static_cast<std::size_t>(axis)];
    tide(density_, axis, axis, field);
    transform_.backward(field);
  }
  for_each_plane("petaflow::cosmoflow::source_diagonal", shape_, [&](int x) {
    for (int y = 0; y < n; ++y) {
      float* const xx = work_[0].real(x, y);
      const float *const yy = work_[1].real(x, y), *const zz = work_[2].real(x, y);
      for (int z = 0; z < n; ++z) xx[z] = xx[z] * yy[z] + xx[z] * zz[z] + yy[z] * zz[z];
    }
  });
  for (const auto& [i, j] : {std::pair{0, 1}, std::pair{0, 2}, std::pair{1, 2}}) {
    tide(density_, i, j, work_[1]);
    transform_.backward(work_[1]);
    for_each_plane("petaflow::cosmoflow::source_mixed", shape_, [&](int x) {
      for (int y = 0; y < n; ++y) {
        float* const source = work_[0].real(x, y);
        const float* const mixed = work_[1].real(x, y);
        for (int z = 0; z < n; ++z) source[z] -= mixed[z] * mixed[z];
      }
    });
  }
  transform_.forward(work_[0]);
  // nabla phi_2 = -i k / k^2 source; the forward transform has brought a factor n^3.
  for (int axis = 0; axis < 3; ++axis) {
    MeshField& field = *second_[static_cast<std::size_t>(axis)];
    attraction(work_[0], axis, static_cast<float>(-1 / std::pow(n, 3)), field);
    transform_.backward(field);
  }
}

void LagrangianField::count(double growth, double second_order_growth, std::span<std::int32_t> counts) const {
  const int n = shape_.n;
  PETAFLOW_REQUIRE(counts.size() == static_cast<std::size_t>(n) * n * n, "{} counts for {}^3", counts.size(), n);
  std::ranges::fill(counts, 0);
  const auto d1 = static_cast<float>(growth), d2 = static_cast<float>(second_order_growth);
  const auto cell = [n](float position) {
    const int index = static_cast<int>(std::floor(position));
    return static_cast<unsigned>(index) < static_cast<unsigned>(n) ? index : (index % n + n) % n;
  };
  for_each_plane("petaflow::cosmoflow::count", shape_, [&](int x) {
    for (int y = 0; y < n; ++y) {
      const float *a[3], *b[3];
      for (int axis = 0; axis < 3; ++axis)
        a[axis] = first_order(axis).real(x, y), b[axis] = second_order(axis).real(x, y);
      for (int z = 0; z < n; ++z) {
        const int start[3] = {x, y, z};
        std::size_t at = 0;
        for (int axis = 0; axis < 3; ++axis) {
          const float moved = d1 * a[axis][z] + d2 * b[axis][z];
          at = at * n + static_cast<std::size_t>(cell(static_cast<float>(start[axis]) + 0.5F + moved));
        }
        Kokkos::atomic_add(&counts[at], 1);
      }
    }
  });
}

}  // namespace petaflow::cosmoflow
