// Fields on a periodic cubic mesh and their Fourier transforms by FFTW (manual 3.3.10, sections 4.4 and 4.6).
//
// A transform consists of many small ones by serial plans, which Kokkos hands out to the threads: so the bits of the
// result depend on no number of threads.  The plans are estimated, not timed, for the same reason.
#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <span>

namespace petaflow::cosmoflow {

/// A real field of n^3 numbers, x slowest, in place of its modes: (n, n, n/2 + 1) complex numbers, the rest follows
/// from delta(-k) = conj(delta(k)).  Rows of both begin every `row` and planes every `plane` complex numbers.
struct MeshShape {
  int n = 0;
  std::size_t row = 0, plane = 0;

  explicit MeshShape(int n);
  int modes() const { return n / 2 + 1; }  // of a row
  std::size_t complex_size() const { return plane * static_cast<std::size_t>(n); }
  std::size_t row_at(int x, int y) const {
    return static_cast<std::size_t>(x) * plane + static_cast<std::size_t>(y) * row;
  }
  /// The wave number of an index along x, y or z, in units of 2 pi over the box, [-n/2, n/2].
  int frequency(int index) const { return 2 * index > n ? index - n : index; }
};

/// The memory of a field, not initialised.
class MeshField {
 public:
  explicit MeshField(const MeshShape& shape);
  const MeshShape& shape() const { return shape_; }

  /// Row (x, y): n numbers before a forward transform and after a backward one ...
  float* real(int x, int y) { return reinterpret_cast<float*>(data_.get() + shape_.row_at(x, y)); }
  const float* real(int x, int y) const { return reinterpret_cast<const float*>(data_.get() + shape_.row_at(x, y)); }
  /// ... and n/2 + 1 modes after a forward transform and before a backward one.
  std::complex<float>* modes(int x, int y) { return data_.get() + shape_.row_at(x, y); }
  const std::complex<float>* modes(int x, int y) const { return data_.get() + shape_.row_at(x, y); }

 private:
  struct Free {
    void operator()(std::complex<float>* data) const;
  };
  MeshShape shape_;
  std::unique_ptr<std::complex<float>[], Free> data_;
};

enum class MeshThreads {
  kAll,     // those of the host; one transform at a time
  kCalling  // the calling one: several may transform different fields at the same time
};

/// The plans for meshes of one size.
class MeshTransform {
 public:
  explicit MeshTransform(int n, MeshThreads threads = MeshThreads::kAll);
  ~MeshTransform();
  MeshTransform(const MeshTransform&) = delete;
  MeshTransform& operator=(const MeshTransform&) = delete;

  /// In place, without a factor: forward and backward multiply a field by n^3.
  void forward(MeshField& field) const;   // sum over x of field(x) exp(-i k x)
  void backward(MeshField& field) const;  // sum over k of field(k) exp(+i k x)

 private:
  struct Plans;
  MeshShape shape_;
  MeshThreads threads_;
  std::unique_ptr<Plans> plans_;
};

}  // namespace petaflow::cosmoflow
