#include "cosmoflow/mesh.hpp"

#include <fftw3.h>

#include <mutex>
#include <new>

#include <Kokkos_Core.hpp>

#include "base/error.hpp"

namespace petaflow::cosmoflow {
namespace {

constexpr std::size_t kLine = 64;  // bytes: rows begin at cache lines
constexpr std::size_t kLineModes = kLine / sizeof(std::complex<float>);

std::mutex planner;  // FFTW's planner, unlike its plans, is not for several threads

fftwf_complex* fftw(std::complex<float>* modes) { return reinterpret_cast<fftwf_complex*>(modes); }

/// f(i) for i in [0, n).
template <class F>
void for_each(MeshThreads threads, const char* label, int n, const F& f) {
  if (threads == MeshThreads::kCalling) {
    for (int i = 0; i < n; ++i) f(i);
  } else {
    Kokkos::parallel_for(label, Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, n), f);
  }
}

}  // namespace

// A line more per plane: where planes lie a power of two apart, a column along x fights for few lines of the cache.
MeshShape::MeshShape(int n_in)
    : n(n_in),
      row((static_cast<std::size_t>(n / 2 + 1) + kLineModes - 1) / kLineModes * kLineModes),
      plane(row * static_cast<std::size_t>(n) + kLineModes) {
  PETAFLOW_REQUIRE(n >= 2 && n <= 4096, "a mesh of {}^3", n);
}

MeshField::MeshField(const MeshShape& shape) : shape_(shape) {
  void* const memory = ::operator new(shape.complex_size() * sizeof(std::complex<float>), std::align_val_t{kLine});
  data_.reset(static_cast<std::complex<float>*>(memory));
}

void MeshField::Free::operator()(std::complex<float>* data) const { ::operator delete(data, std::align_val_t{kLine}); }

// In one plane: (y, z); in one row of all planes: x, for all modes along z.
struct MeshTransform::Plans {
  fftwf_plan plane_forward = nullptr, plane_backward = nullptr, columns_forward = nullptr, columns_backward = nullptr;
};

MeshTransform::MeshTransform(int n, MeshThreads threads)
    : shape_(n), threads_(threads), plans_(std::make_unique<Plans>()) {
  MeshField field(shape_);
  const std::lock_guard lock(planner);
  const auto row = static_cast<int>(shape_.row), plane = static_cast<int>(shape_.plane);
  const int sizes[2] = {n, n}, real_rows[2] = {n, 2 * row}, mode_rows[2] = {n, row};
  float* const real = field.real(0, 0);
  fftwf_complex* const modes = fftw(field.modes(0, 0));
  plans_->plane_forward =
      fftwf_plan_many_dft_r2c(2, sizes, 1, real, real_rows, 1, 2 * plane, modes, mode_rows, 1, plane, FFTW_ESTIMATE);
  plans_->plane_backward =
      fftwf_plan_many_dft_c2r(2, sizes, 1, modes, mode_rows, 1, plane, real, real_rows, 1, 2 * plane, FFTW_ESTIMATE);
  const auto columns = [&](int sign) {
    return fftwf_plan_many_dft(1, sizes, shape_.modes(), modes, nullptr, plane, 1, modes, nullptr, plane, 1, sign,
                               FFTW_ESTIMATE);
  };
  plans_->columns_forward = columns(FFTW_FORWARD);
  plans_->columns_backward = columns(FFTW_BACKWARD);
  PETAFLOW_REQUIRE(plans_->plane_forward != nullptr && plans_->plane_backward != nullptr &&
                       plans_->columns_forward != nullptr && plans_->columns_backward != nullptr,
                   "FFTW has no plan for a mesh of {}^3", n);
}

MeshTransform::~MeshTransform() {
  const std::lock_guard lock(planner);
  for (fftwf_plan plan :
       {plans_->plane_forward, plans_->plane_backward, plans_->columns_forward, plans_->columns_backward}) {
    fftwf_destroy_plan(plan);
  }
}

void MeshTransform::forward(MeshField& field) const {
  for_each(threads_, "petaflow::cosmoflow::mesh::forward_planes[fftw]", shape_.n,
           [&](int x) { fftwf_execute_dft_r2c(plans_->plane_forward, field.real(x, 0), fftw(field.modes(x, 0))); });
  for_each(threads_, "petaflow::cosmoflow::mesh::forward_columns[fftw]", shape_.n, [&](int y) {
    fftwf_execute_dft(plans_->columns_forward, fftw(field.modes(0, y)), fftw(field.modes(0, y)));
  });
}

void MeshTransform::backward(MeshField& field) const {
  for_each(threads_, "petaflow::cosmoflow::mesh::backward_columns[fftw]", shape_.n, [&](int y) {
    fftwf_execute_dft(plans_->columns_backward, fftw(field.modes(0, y)), fftw(field.modes(0, y)));
  });
  for_each(threads_, "petaflow::cosmoflow::mesh::backward_planes[fftw]", shape_.n,
           [&](int x) { fftwf_execute_dft_c2r(plans_->plane_backward, fftw(field.modes(x, 0)), field.real(x, 0)); });
}

}  // namespace petaflow::cosmoflow
