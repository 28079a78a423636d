// Statistics, maps and gradients of batch norm: sums over the pixels, then one pass that applies what follows of them.
#include "kernels/batch_norm.hpp"

#include <algorithm>

#include "base/element.hpp"
#include "base/error.hpp"
#include "kernels/batch_norm_sums.hpp"
#include "kernels/lanes.hpp"
#include "kernels/launch.hpp"

namespace petaflow {
namespace {

using batch_norm::add_parts;
using batch_norm::common;
using batch_norm::is_real;
using batch_norm::part_of;
using batch_norm::partial_bytes;
using batch_norm::parts_of;
using batch_norm::Pixels;
using batch_norm::pixels_of;
using batch_norm::real_samples;
using batch_norm::Signs;
using batch_norm::SumPart;
using lanes::Floats;
using lanes::kLanes;

// ---- The gradient behind the map ----

/// True where dz is dy through the signs of an activation, which each pass can look up itself.
bool has_signs_only(const EpilogueDesc& behind) {
  return behind.saves_signs() && behind.dropout == 0 && behind.pool.window.volume() == 1 && behind.v == behind.y &&
         behind.v.c % 8 == 0;
}

Signs signs_of(const Epilogue& behind) {
  const EpilogueDesc& desc = behind.desc();
  return has_signs_only(desc) ? Signs{behind.saved(), desc.v.c, desc.negative_slope} : Signs{};
}

/// dz that has to be made: a few rows at a time on the host, by the thread that reads them; all at once on a device.
class GradientRows {
 public:
  explicit GradientRows(const EpilogueDesc& behind) : v_(behind.v), made_(is_made(behind)) {
    // Rows of whole windows, 64 KiB of them, which leave room in an L2 cache of 512 KiB for what they are made of
    // (not measured against other sizes).
    constexpr std::int64_t kElements = 16384;
    const std::int64_t stride = behind.pool.stride.h, fit = kElements / (v_.w * v_.c) / stride * stride;
    rows_ = std::min(v_.h, std::max(fit, stride));
    per_plane_ = (v_.h + rows_ - 1) / rows_;
  }

  /// Where it is not, dz is dy, or dy through signs.
  static bool is_made(const EpilogueDesc& behind) { return behind.saves() && !has_signs_only(behind); }

  std::int64_t blocks() const { return v_.n * v_.d * per_plane_; }
  /// The pixels of a block, counted over all samples.
  Interval pixels(std::int64_t block) const {
    const std::int64_t first = block / per_plane_ * v_.h, h = block % per_plane_ * rows_;
    return {(first + h) * v_.w, (first + std::min(h + rows_, v_.h)) * v_.w};
  }
  /// The block of a pixel.
  std::int64_t block_of(std::int64_t pixel) const {
    const std::int64_t row = pixel / v_.w;
    return row / v_.h * per_plane_ + row % v_.h / rows_;
  }
  /// Floats that dz takes in a part; on a device there is one part.
  std::int64_t elements() const { return !made_ ? 0 : kOnHost ? rows_ * v_.w * v_.c : v_.elements(); }

  /// dz of a block: made in `memory`, or dy where nothing or signs are behind the map.
  template <class G>
  Pixels<const G> make(const Context& context, const Epilogue& behind, std::int64_t block, float* memory) const {
    if constexpr (std::is_same_v<G, float>) {
      if (made_) {
        const Interval own = pixels(block);
        const std::int64_t plane = block / per_plane_, n = plane / v_.d, d = plane % v_.d, h = own.begin / v_.w % v_.h;
        behind.backward(context, {{n, n + 1}, {d, d + 1}, {h, h + own.size() / v_.w}}, memory);
        return {memory, v_.c, own.begin};
      }
    }
    return pixels_of<const G>(behind.dy());
  }
  /// dz of all, on a device.
  template <class G>
  Pixels<const G> make_all(const Context& context, const Epilogue& behind, float* memory) const {
    if constexpr (std::is_same_v<G, float>) {
      if (made_) {
        behind.backward_all(context, "petaflow::batch_norm::epilogue_backward[kokkos]"_label, memory);
        return {memory, v_.c};
      }
    }
    return pixels_of<const G>(behind.dy());
  }

 private:
  Shape v_;
  bool made_;
  std::int64_t rows_, per_plane_;
};

/// run(G, T): the types of dz and of x.
template <class Run>
void with_types(const Epilogue& behind, const Run& run) {
  with_element(behind.desc().type, [&]<class T>(T element) {
    GradientRows::is_made(behind.desc()) ? run(float{}, element) : run(element, element);
  });
}

/// f(part) for each of so many parts, by the threads of the host.
template <class F>
void for_parts(const std::string& label, int parts, const F& f) {
  using Host = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Host, Kokkos::Schedule<Kokkos::Static>>(0, parts), f);
}

// ---- Maps ----

KOKKOS_INLINE_FUNCTION double number(const float* parameter, std::int64_t c, double otherwise) {
  return parameter == nullptr ? otherwise : static_cast<double>(parameter[c]);
}

/// dx = scale[0] dz + scale[1] x + offset, and dz, through the signs, for the residual.
template <class G, class T>
struct GradientMap {
  std::int64_t pixels, channels;  // of a slot
  ChannelMap map;
  const StepState* step;
  Pixels<const G> dz;
  Pixels<const T> x;
  Pixels<T> dx, residual;  // null where nobody wants them
  bool adds_dx, adds_residual;
  Signs signs;

  static constexpr std::int64_t kPixels = 4;                                     // of an item on a device
  static constexpr int kMost = kOnHost ? (lanes::kRegisters >= 32 ? 4 : 2) : 1;  // registers side by side

  KOKKOS_INLINE_FUNCTION std::int64_t chunks() const { return (channels + kLanes - 1) / kLanes; }
  KOKKOS_INLINE_FUNCTION std::int64_t blocks() const { return (pixels + kPixels - 1) / kPixels; }
  std::int64_t items(std::int64_t slots) const { return slots * blocks() * chunks(); }

  /// On a device: some channels of a few pixels.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t c = item % chunks() * kLanes, block = item / chunks() % blocks(),
                       slot = item / chunks() / blocks();
    const Interval own = common({block * kPixels, (block + 1) * kPixels}, {0, pixels});
    const Interval range{slot * pixels + own.begin, slot * pixels + own.end};
    if (c + kLanes <= channels) {
      apply<1, true>(range, slot, c, kLanes, 1);
    } else {
      apply<1, false>(range, slot, c, static_cast<int>(channels - c), 1);
    }
  }

  /// On the host: all channels of some pixels of a slot.
  void rows(const Interval& range) const {
    const std::int64_t slot = range.begin / pixels;
    const bool dense = dz.stride == channels && x.stride == channels && (dx.data == nullptr || dx.stride == channels) &&
                       (residual.data == nullptr || residual.stride == channels);
    if (channels < kLanes && kLanes % channels == 0 && dense) {  // several pixels in a register
      const std::int64_t held = kLanes / channels, whole = range.size() / held * held;
      apply<1, true>({range.begin, range.begin + whole}, slot, 0, kLanes, held);
      const auto left = static_cast<int>((range.size() - whole) * channels);
      if (left > 0) apply<1, false>({range.end - left / channels, range.end}, slot, 0, left, held);
      return;
    }
    std::int64_t c = 0;
    for (; c + kMost * kLanes <= channels; c += kMost * kLanes) apply<kMost, true>(range, slot, c, kLanes, 1);
    for (; c + kLanes <= channels; c += kLanes) apply<1, true>(range, slot, c, kLanes, 1);
    if (c < channels) apply<1, false>(range, slot, c, static_cast<int>(channels - c), 1);
  }

 private:
  // kCount registers of channels from c; where kWhole is false one, of which `count` lanes exist; each holds `held`
  // pixels.
  template <int kCount, bool kWhole>
  KOKKOS_INLINE_FUNCTION void apply(const Interval& range, std::int64_t slot, std::int64_t c, int count,
                                    std::int64_t held) const {
    signs.data == nullptr ? apply<kCount, kWhole, false>(range, slot, c, count, held)
                          : apply<kCount, kWhole, true>(range, slot, c, count, held);
  }
  template <int kCount, bool kWhole, bool kSigned>
  KOKKOS_INLINE_FUNCTION void apply(const Interval& range, std::int64_t slot, std::int64_t c, int count,
                                    std::int64_t held) const {
    Floats of_dz[kCount], of_x[kCount], offset[kCount];
    const bool real = is_real(step, slot);
    lanes::unrolled<kCount>([&](auto r) {
      float coefficients[3][kLanes] = {};
      for (int i = 0; i < kLanes; ++i) {
        if (i >= count || !real) continue;
        const std::int64_t lane = c + r * kLanes + i, channel = lane < channels ? lane : lane % channels;
        coefficients[0][i] = map.scale[0][channel];
        coefficients[1][i] = map.scale[1][channel];
        coefficients[2][i] = map.offset[channel];
      }
      of_dz[r] = lanes::floats_of(coefficients[0]);
      of_x[r] = lanes::floats_of(coefficients[1]);
      offset[r] = lanes::floats_of(coefficients[2]);
    });
    for (std::int64_t p = range.begin; p < range.end; p += held) {
      Floats gradient[kCount];
      lanes::unrolled<kCount>([&](auto r) {
        read<kWhole>(dz(p) + c + r * kLanes, count, gradient[r]);
        if constexpr (kSigned) {
          const lanes::Mask positive = lanes::mask_of(signs(p, c + r * kLanes, kWhole ? kLanes : count));
          gradient[r] = lanes::select(positive, gradient[r], gradient[r] * lanes::all(signs.slope));
        }
      });
      if (dx.data != nullptr) {
        lanes::unrolled<kCount>([&](auto r) {
          Floats sum = offset[r], value;
          lanes::multiply_add(sum, of_dz[r], gradient[r]);
          read<kWhole>(x(p) + c + r * kLanes, count, value);
          lanes::multiply_add(sum, of_x[r], value);
          write<kWhole>(dx(p) + c + r * kLanes, count, adds_dx, sum);
        });
      }
      if (residual.data != nullptr) {
        lanes::unrolled<kCount>(
            [&](auto r) { write<kWhole>(residual(p) + c + r * kLanes, count, adds_residual, gradient[r]); });
      }
    }
  }
  template <bool kWhole, class E>
  static KOKKOS_INLINE_FUNCTION void read(const E* from, int count, Floats& to) {
    if constexpr (kWhole) {
      lanes::load(from, to);
    } else {
      lanes::load_part(from, count, to);
    }
  }
  template <bool kWhole>
  static KOKKOS_INLINE_FUNCTION void write(T* to, int count, bool adds, Floats value) {
    if (adds) {
      Floats there;
      read<kWhole>(to, count, there);
      value += there;
    }
    lanes::store(to, kWhole ? kLanes : count, value);
  }
};

void check(const Tensor& tensor, const Shape& shape, DType type) {
  PETAFLOW_REQUIRE(tensor.shape == shape && tensor.type == type, "a tensor {} of {} beside {} of {}",
                   to_string(tensor.shape), name_of(tensor.type), to_string(shape), name_of(type));
}

}  // namespace

std::size_t batch_norm_scratch_bytes(int host_parts, const Shape& x) {
  return partial_bytes(parts_of(host_parts, x), x.c);
}

std::size_t batch_norm_scratch_bytes(int host_parts, const EpilogueDesc& behind) {
  const std::int64_t rows = (kOnHost ? host_parts : 1) * GradientRows(behind).elements();
  return batch_norm_scratch_bytes(host_parts, behind.v) + static_cast<std::size_t>(rows) * sizeof(float);
}

void sum_moments(const Context& context, int host_parts, const Tensor& x, double* sums, std::byte* scratch) {
  PETAFLOW_REQUIRE(context.step != nullptr, "the state of the step is needed");
  const std::int64_t parts = parts_of(host_parts, x.shape);
  auto* const partial = reinterpret_cast<double*>(scratch);
  const auto sum = [&]<class T>(T) {
    const auto pixels = pixels_of<const T>(x);
    const SumPart<true, const T, const T> part{.slots = x.shape.n,
                                               .pixels = x.shape.pixels(),
                                               .channels = x.shape.c,
                                               .parts = parts,
                                               .step = context.step,
                                               .a = pixels,
                                               .b = pixels,
                                               .centre = nullptr,
                                               .sums = partial};
    launch(context, "petaflow::batch_norm::sum[kokkos]"_label, part.items(), part);
  };
  with_element(x.type, sum);
  add_parts(context, x.shape, parts, partial, sums);
}

void sum_gradients(const Context& context, int host_parts, const Tensor& x, const Epilogue& behind, const float* mean,
                   double* sums, std::byte* scratch) {
  PETAFLOW_REQUIRE(context.step != nullptr, "the state of the step is needed");
  const Shape& shape = behind.desc().v;
  check(x, shape, behind.desc().type);
  const GradientRows gradient(behind.desc());
  const std::int64_t parts = parts_of(host_parts, shape);
  auto* const partial = reinterpret_cast<double*>(scratch);
  auto* const memory = reinterpret_cast<float*>(scratch + partial_bytes(parts, shape.c));
  const std::string& label = "petaflow::batch_norm::sum[kokkos]"_label;
  with_types(behind, [&]<class G, class T>(G, T) {
    SumPart<false, const G, const T> sum{.slots = shape.n,
                                         .pixels = shape.pixels(),
                                         .channels = shape.c,
                                         .parts = parts,
                                         .step = context.step,
                                         .a = {},
                                         .b = pixels_of<const T>(x),
                                         .centre = mean,
                                         .sums = partial,
                                         .signs = signs_of(behind)};
    if constexpr (kOnHost) {
      for_parts(label, host_parts, [&](int part) {
        auto own = sum;
        double* const to = partial + part * 2 * shape.c;
        std::fill_n(to, 2 * shape.c, 0.0);
        const Interval range = part_of(shape.n * shape.pixels(), part, parts);
        for (std::int64_t p = range.begin; p < range.end;) {
          const std::int64_t block = gradient.block_of(p);
          own.a = gradient.template make<G>(context, behind, block, memory + part * gradient.elements());
          const Interval both = common(range, gradient.pixels(block));
          own.add_real(both, 0, shape.c, to);
          p = both.end;
        }
      });
    } else {
      sum.a = gradient.template make_all<G>(context, behind, memory);
      launch(context, label, sum.items(), sum);
    }
  });
  add_parts(context, shape, parts, partial, sums);
}

void map_batch(const Context& context, std::int64_t channels, float epsilon, const double* sums, const float* weight,
               const float* bias, const BatchStatistics& statistics, const ChannelMap& map) {
  launch(
      context, "petaflow::batch_norm::statistics[kokkos]"_label, channels, KOKKOS_LAMBDA(std::int64_t c) {
        const double m = sums[2 * channels];
        const double mean = m > 0 ? sums[c] / m : 0;
        const double spread = m > 0 ? sums[channels + c] - sums[c] * mean : 0;  // sum (x - mean)^2
        const double squares = spread > 0 || spread != spread ? spread : 0;     // NaN stays NaN
        const double rstd = m > 0 ? 1 / ::sqrt(squares / m + static_cast<double>(epsilon)) : 1;
        const double scale = m > 0 ? rstd * number(weight, c, 1) : 1;
        statistics.mean[c] = static_cast<float>(mean);
        statistics.rstd[c] = static_cast<float>(rstd);
        statistics.variance[c] = static_cast<float>(m > 1 ? squares / (m - 1) : 0);
        if (c == 0) statistics.share[0] = static_cast<float>(m > 0 ? 1 / m : 0);
        map.scale[0][c] = static_cast<float>(scale);
        map.offset[c] = m > 0 ? static_cast<float>(number(bias, c, 0) - mean * scale) : 0.0F;
      });
}

void map_running(const Context& context, std::int64_t channels, float epsilon, const float* mean, const float* variance,
                 const float* weight, const float* bias, const ChannelMap& map) {
  launch(
      context, "petaflow::batch_norm::running_map[kokkos]"_label, channels, KOKKOS_LAMBDA(std::int64_t c) {
        const double rstd = 1 / ::sqrt(static_cast<double>(variance[c]) + static_cast<double>(epsilon));
        const double scale = rstd * number(weight, c, 1);
        map.scale[0][c] = static_cast<float>(scale);
        map.offset[c] = static_cast<float>(number(bias, c, 0) - static_cast<double>(mean[c]) * scale);
      });
}

void map_gradient(const Context& context, std::int64_t channels, const double* sums, const float* weight,
                  const BatchStatistics& statistics, const ChannelMap& map) {
  launch(
      context, "petaflow::batch_norm::gradient_map[kokkos]"_label, channels, KOKKOS_LAMBDA(std::int64_t c) {
        const double share = static_cast<double>(statistics.share[0]), rstd = static_cast<double>(statistics.rstd[c]);
        const double scale = share > 0 ? rstd * number(weight, c, 1) : 1;
        const double slope = -scale * rstd * rstd * sums[channels + c] * share;  // of dx in x
        map.scale[0][c] = static_cast<float>(scale);
        map.scale[1][c] = static_cast<float>(slope);
        map.offset[c] = static_cast<float>(-scale * sums[c] * share - slope * static_cast<double>(statistics.mean[c]));
      });
}

void write_gradients(const Context& context, std::int64_t channels, const double* sums,
                     const BatchStatistics& statistics, float* weight, float* bias) {
  launch(
      context, "petaflow::batch_norm::parameter_gradients[kokkos]"_label, channels, KOKKOS_LAMBDA(std::int64_t c) {
        bias[c] = static_cast<float>(sums[c]);
        weight[c] = static_cast<float>(sums[channels + c] * static_cast<double>(statistics.rstd[c]));
      });
}

void write_running_statistics(const Context& context, const Shape& x, const BatchStatistics& statistics, float* mean,
                              float* variance) {
  const StepState* step = context.step;
  const std::int64_t slots = x.n;
  launch(
      context, "petaflow::batch_norm::running_statistics[kokkos]"_label, x.c, KOKKOS_LAMBDA(std::int64_t c) {
        const float share = static_cast<float>(real_samples(step, slots)) * step->loss_scale;
        mean[c] = share * statistics.mean[c];
        variance[c] = share * statistics.variance[c];
      });
}

void apply_gradient_map(const Context& context, int host_parts, const std::string& label, const ChannelMap& map,
                        const Tensor& x, const Epilogue& behind, const GradientTarget& dx,
                        const GradientTarget& residual, std::byte* scratch) {
  const Shape& shape = behind.desc().v;
  check(x, shape, behind.desc().type);
  for (const GradientTarget* target : {&dx, &residual}) {
    if (target->tensor.data != nullptr) check(target->tensor, shape, behind.desc().type);
  }
  const GradientRows gradient(behind.desc());
  auto* const memory = reinterpret_cast<float*>(scratch);
  with_types(behind, [&]<class G, class T>(G, T) {
    GradientMap<G, T> all{.pixels = shape.pixels(),
                          .channels = shape.c,
                          .map = map,
                          .step = context.step,
                          .dz = {},
                          .x = pixels_of<const T>(x),
                          .dx = pixels_of<T>(dx.tensor),
                          .residual = pixels_of<T>(residual.tensor),
                          .adds_dx = dx.adds,
                          .adds_residual = residual.adds,
                          .signs = signs_of(behind)};
    if constexpr (kOnHost) {
      for_parts(label, host_parts, [&](int part) {
        auto own = all;
        const Interval blocks = part_of(gradient.blocks(), part, host_parts);
        for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
          own.dz = gradient.template make<G>(context, behind, block, memory + part * gradient.elements());
          own.rows(gradient.pixels(block));
        }
      });
    } else {
      all.dz = gradient.template make_all<G>(context, behind, memory);
      launch(context, label, all.items(shape.n), all);
    }
  });
}

}  // namespace petaflow
