// Each part of the pixels has its own sums, which are then added in the order of the parts.
#include "kernels/batch_norm.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/lanes.hpp"
#include "kernels/launch.hpp"

namespace petaflow {
namespace {

using lanes::Floats;
using lanes::kLanes;

// ---- f64 lanes: as many as fill a register ----

#if PETAFLOW_NATIVE_LANES
constexpr int kWide = kLanes / 2;
using Wide = double __attribute__((vector_size(kWide * 8)));
#else
constexpr int kWide = kLanes;
struct Wide {
  double lane[kWide];
  KOKKOS_INLINE_FUNCTION double& operator[](int i) { return lane[i]; }
  KOKKOS_INLINE_FUNCTION double operator[](int i) const { return lane[i]; }
};
#endif

KOKKOS_INLINE_FUNCTION void load(const double* from, Wide& to) {
#if PETAFLOW_NATIVE_LANES
  std::memcpy(&to, from, sizeof to);
#else  // of nvcc's memcpy come loads of single bytes
  for (int i = 0; i < kWide; ++i) to[i] = from[i];
#endif
}
KOKKOS_INLINE_FUNCTION void store(double* to, const Wide& from) {
#if PETAFLOW_NATIVE_LANES
  std::memcpy(to, &from, sizeof from);
#else
  for (int i = 0; i < kWide; ++i) to[i] = from[i];
#endif
}
KOKKOS_INLINE_FUNCTION void load(const float* from, Wide& to) {
  // One instruction; __builtin_convertvector becomes five with GCC 12.
  for (int i = 0; i < kWide; ++i) to[i] = static_cast<double>(from[i]);
}

/// first += a, second += a (b - centre).
KOKKOS_INLINE_FUNCTION void add_pair(const Wide& a, const Wide& b, const Wide& centre, Wide& first, Wide& second) {
#if PETAFLOW_NATIVE_LANES
  first += a;
  second += a * (b - centre);
#else
  for (int i = 0; i < kWide; ++i) {
    first[i] += a[i];
    second[i] += a[i] * (b[i] - centre[i]);
  }
#endif
}

// ---- Sums ----

/// Parts of a tensor, each with its own sums.
std::int64_t parts_of(int slots, const Shape& x) {
  constexpr std::int64_t kMost = 8192, kPixels = 16;  // on a device
  return kOnHost ? slots : std::clamp<std::int64_t>(x.n * x.pixels() / kPixels, 1, kMost);
}
/// Those of a device are added in two steps.
constexpr std::int64_t kSecondParts = kOnHost ? 0 : 64;

KOKKOS_INLINE_FUNCTION bool is_real(const StepState* step, std::int64_t slot) { return step->sample[slot] >= 0; }

KOKKOS_INLINE_FUNCTION std::int64_t real_samples(const StepState* step, std::int64_t slots) {
  std::int64_t count = 0;
  for (std::int64_t n = 0; n < slots; ++n) count += is_real(step, n) ? 1 : 0;
  return count;
}

/// [sum a (C), sum a (b - centre) (C)] of each part.  kSame: b is a, and the centre 0.
template <bool kSame>
struct SumPart {
  std::int64_t slots, pixels, channels, parts;  // pixels of a slot
  const StepState* step;
  const float *a, *b, *centre;
  double* sums;  // (parts, 2 C)

  static constexpr int kGroup = kOnHost ? 2 : 1;  // registers side by side: 4 chains of additions

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    // All channels of a part on the host, a few of them on a device.
    const std::int64_t groups = kOnHost ? 1 : (channels + kWide - 1) / kWide, part = item / groups;
    const std::int64_t c0 = kOnHost ? 0 : item % groups * kWide;
    const std::int64_t c1 = kOnHost || c0 + kWide > channels ? channels : c0 + kWide;
    double* sum = sums + part * 2 * channels;
    for (std::int64_t c = c0; c < c1; ++c) sum[c] = sum[channels + c] = 0;
    const std::int64_t all = slots * pixels, begin = all * part / parts, end = all * (part + 1) / parts;
    for (std::int64_t n = begin / pixels; n * pixels < end; ++n) {
      if (!is_real(step, n)) continue;
      const std::int64_t from = n * pixels < begin ? begin : n * pixels;
      const std::int64_t to = (n + 1) * pixels < end ? (n + 1) * pixels : end;
      // Blocks stay in the first cache while the channels are gone through.
      const std::int64_t block = kOnHost ? 1 + 4096 / channels : to - from;
      for (std::int64_t p = from; p < to; p += block) {
        add(p, p + block < to ? p + block : to, c0, c1, sum);
      }
    }
  }

  KOKKOS_INLINE_FUNCTION void add(std::int64_t begin, std::int64_t end, std::int64_t c0, std::int64_t c1,
                                  double* sum) const {
    std::int64_t c = c0;
    for (; c + kGroup * kWide <= c1; c += kGroup * kWide) add_registers<kGroup>(begin, end, c, sum);
    for (; c + kWide <= c1; c += kWide) add_registers<1>(begin, end, c, sum);
    for (; c < c1; ++c) {
      double first = sum[c], second = sum[channels + c];
      const double middle = kSame ? 0 : static_cast<double>(centre[c]);
      for (std::int64_t p = begin; p < end; ++p) {
        const double value = static_cast<double>(a[p * channels + c]);
        first += value;
        second += value * (kSame ? value : static_cast<double>(b[p * channels + c]) - middle);
      }
      sum[c] = first;
      sum[channels + c] = second;
    }
  }

  template <int kRegisters>
  KOKKOS_INLINE_FUNCTION void add_registers(std::int64_t begin, std::int64_t end, std::int64_t c, double* sum) const {
    Wide first[kRegisters], second[kRegisters], middle[kRegisters];
    for (int r = 0; r < kRegisters; ++r) {
      load(sum + c + r * kWide, first[r]);
      load(sum + channels + c + r * kWide, second[r]);
      if constexpr (kSame) {
        middle[r] = Wide{};
      } else {
        load(centre + c + r * kWide, middle[r]);
      }
    }
    for (std::int64_t p = begin; p < end; ++p) {
      for (int r = 0; r < kRegisters; ++r) {
        Wide value, other;
        load(a + p * channels + c + r * kWide, value);
        if constexpr (kSame) {
          other = value;
        } else {
          load(b + p * channels + c + r * kWide, other);
        }
        add_pair(value, other, middle[r], first[r], second[r]);
      }
    }
    for (int r = 0; r < kRegisters; ++r) {
      store(sum + c + r * kWide, first[r]);
      store(sum + channels + c + r * kWide, second[r]);
    }
  }

  std::int64_t items() const { return kOnHost ? parts : parts * ((channels + kWide - 1) / kWide); }
};

/// (parts, columns) -> (fewer, columns): each is the sum of neighbours.
struct AddParts {
  std::int64_t columns, parts, fewer;
  const double* sums;
  double* to;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t out = item / columns, column = item % columns;
    double total = 0;
    for (std::int64_t part = parts * out / fewer; part < parts * (out + 1) / fewer; ++part) {
      total += sums[part * columns + column];
    }
    to[item] = total;
  }
};

template <bool kSame>
void sum_pairs(const Context& context, int slots, const Shape& shape, const float* a, const float* b,
               const float* centre, double* sums, std::byte* scratch) {
  PETAFLOW_REQUIRE(context.step != nullptr, "the state of the step is needed");
  const std::int64_t parts = parts_of(slots, shape), columns = 2 * shape.c;
  auto* partial = reinterpret_cast<double*>(scratch);
  const SumPart<kSame> part{shape.n, shape.pixels(), shape.c, parts, context.step, a, b, centre, partial};
  launch(context, "petaflow::batch_norm::sum[kokkos]"_label, part.items(), part);
  const std::string& add = "petaflow::batch_norm::add_parts[kokkos]"_label;
  if (parts > kSecondParts && kSecondParts > 0) {
    double* second = partial + parts * columns;
    launch(context, add, kSecondParts * columns, AddParts{columns, parts, kSecondParts, partial, second});
    launch(context, add, columns, AddParts{columns, kSecondParts, 1, second, sums});
  } else {
    launch(context, add, columns, AddParts{columns, parts, 1, partial, sums});
  }
  const StepState* step = context.step;
  const std::int64_t n = shape.n, pixels = shape.pixels();
  launch(
      context, "petaflow::batch_norm::count[kokkos]"_label, 1,
      KOKKOS_LAMBDA(std::int64_t) { sums[columns] = static_cast<double>(real_samples(step, n) * pixels); });
}

// ---- Maps ----

KOKKOS_INLINE_FUNCTION double number(const float* parameter, std::int64_t c, double otherwise) {
  return parameter == nullptr ? otherwise : static_cast<double>(parameter[c]);
}

/// The elements of a tensor cut into a few pixels and some channels of a slot.  Where a register holds several pixels,
/// they are one pixel of as many channels.
struct Tiles {
  std::int64_t slots, pixels, channels, block, blocks, chunks;

  explicit Tiles(const Shape& x) : slots(x.n) {
    const bool folds = kLanes % x.c == 0 && x.pixels() % (kLanes / x.c) == 0;
    channels = folds ? kLanes : x.c;
    pixels = x.sample_size() / channels;
    block = kOnHost ? 1 + 8192 / channels : 4;  // stays in the first cache while its channels are gone through
    blocks = (pixels + block - 1) / block;
    chunks = (channels + kLanes - 1) / kLanes;
  }

  std::int64_t items() const { return slots * blocks * (kOnHost ? 1 : chunks); }

  /// f(slot, first pixel, end, first channel, channels): all channels of the block on the host, kLanes on a device.
  template <class F>
  KOKKOS_INLINE_FUNCTION void visit(std::int64_t item, const F& f) const {
    const std::int64_t per_block = kOnHost ? 1 : chunks, tile = item / per_block;
    const std::int64_t slot = tile / blocks, begin = tile % blocks * block;
    const std::int64_t end = begin + block < pixels ? begin + block : pixels;
    const std::int64_t first = kOnHost ? 0 : item % per_block, last = kOnHost ? chunks : first + 1;
    for (std::int64_t chunk = first; chunk < last; ++chunk) {
      const std::int64_t c = chunk * kLanes, left = channels - c;
      const int count = left < kLanes ? static_cast<int>(left) : kLanes;
      f(slot, slot * pixels + begin, slot * pixels + end, c, count);
    }
  }
};

/// y = scale x + offset; with a second operand z = scale x + scale2 x2 + offset, 0 in padded slots.
template <bool kTwo>
struct Map {
  Tiles tiles;
  std::int64_t channels;  // of the map
  ChannelMap map;
  const StepState* step;
  const float *x, *x2;
  float* y;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    tiles.visit(item, [&](std::int64_t slot, std::int64_t begin, std::int64_t end, std::int64_t c, int count) {
      float coefficients[3][kLanes] = {};
      for (int i = 0; i < count && (!kTwo || is_real(step, slot)); ++i) {
        const std::int64_t channel = (c + i) % channels;
        coefficients[0][i] = map.scale[0][channel];
        if constexpr (kTwo) coefficients[1][i] = map.scale[1][channel];
        coefficients[2][i] = map.offset[channel];
      }
      if (count == kLanes) {
        map_pixels<true>(begin * tiles.channels + c, end * tiles.channels + c, count, coefficients);
      } else {
        map_pixels<false>(begin * tiles.channels + c, end * tiles.channels + c, count, coefficients);
      }
    });
  }

  template <bool kFull>
  KOKKOS_INLINE_FUNCTION void map_pixels(std::int64_t begin, std::int64_t end, int count,
                                         const float (&coefficients)[3][kLanes]) const {
    Floats scale, scale2, offset;
    lanes::load(coefficients[0], scale);
    lanes::load(coefficients[1], scale2);
    lanes::load(coefficients[2], offset);
    const float *from = x, *from2 = x2;
    float* to = y;
    const std::int64_t pixel = tiles.channels;
    for (std::int64_t i = begin; i < end; i += pixel) {
      Floats value, sum = offset;
      load_pixel<kFull>(from + i, count, value);
      lanes::multiply_add(sum, scale, value);
      if constexpr (kTwo) {
        load_pixel<kFull>(from2 + i, count, value);
        lanes::multiply_add(sum, scale2, value);
      }
      lanes::store(to + i, kFull ? kLanes : count, sum);
    }
  }

  template <bool kFull>
  static KOKKOS_INLINE_FUNCTION void load_pixel(const float* from, int count, Floats& to) {
    if constexpr (kFull) {
      lanes::load(from, to);
    } else {
      lanes::load_part(from, count, to);
    }
  }
};

void check_dense(const Tensor& tensor, const Tensor& like) {
  PETAFLOW_REQUIRE(tensor.shape == like.shape && tensor.pixel_stride == tensor.shape.c && tensor.type == DType::kF32,
                   "a tensor {} with pixels {} apart beside {}", to_string(tensor.shape), tensor.pixel_stride,
                   to_string(like.shape));
}

}  // namespace

std::size_t batch_norm_scratch_bytes(int slots, const Shape& x) {
  return static_cast<std::size_t>((parts_of(slots, x) + kSecondParts) * 2 * x.c) * sizeof(double);
}

void sum_moments(const Context& context, int slots, const Tensor& x, double* sums, std::byte* scratch) {
  check_dense(x, x);
  sum_pairs<true>(context, slots, x.shape, x.as<float>(), nullptr, nullptr, sums, scratch);
}

void sum_gradients(const Context& context, int slots, const Tensor& x, const Tensor& dy, const float* mean,
                   double* sums, std::byte* scratch) {
  check_dense(x, x);
  check_dense(dy, x);
  sum_pairs<false>(context, slots, x.shape, dy.as<float>(), x.as<float>(), mean, sums, scratch);
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

void apply_map(const Context& context, const std::string& label, const ChannelMap& map, const Tensor& x,
               const Tensor& y) {
  check_dense(x, x);
  check_dense(y, x);
  const Tiles tiles(x.shape);
  launch(context, label, tiles.items(),
         Map<false>{tiles, x.shape.c, map, nullptr, x.as<float>(), nullptr, y.as<float>()});
}

void apply_map(const Context& context, const std::string& label, const ChannelMap& map, const Tensor& dy,
               const Tensor& x, const Tensor& dx) {
  check_dense(x, x);
  check_dense(dy, x);
  check_dense(dx, x);
  const Tiles tiles(x.shape);
  launch(context, label, tiles.items(),
         Map<true>{tiles, x.shape.c, map, context.step, dy.as<float>(), x.as<float>(), dx.as<float>()});
}

}  // namespace petaflow
