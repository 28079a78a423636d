// The portable convolution: every pass, geometry, stride and type; it never refuses.
#include <algorithm>

#include "base/error.hpp"
#include "kernels/conv_outer.hpp"
#include "kernels/launch.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow {
namespace {

using portable::Axis;
using portable::Gather;
using portable::Outer;
using portable::PackedOrder;
using portable::PackWeights;

template <class T>
using Buffer = Kokkos::View<T*, MemorySpace>;

Axis forward_axis(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                  std::int64_t pad, std::int64_t in_stride, std::int64_t out_stride) {
  return {in, out, kernel, stride, dilation, -pad, 1, in_stride, out_stride};
}

/// The packed weights have their taps reversed, so that the sources of successive taps ascend here too.
Axis backward_axis(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                   std::int64_t pad, std::int64_t in_stride, std::int64_t out_stride) {
  return {out, in, kernel, 1, dilation, pad - (kernel - 1) * dilation, stride, out_stride, in_stride};
}

class GatherKernel final : public ConvKernel {
 public:
  GatherKernel(Pass pass, std::span<const ConvDesc> tiles)
      : backward_(pass == Pass::kBackwardData), tiles_(tiles.begin(), tiles.end()) {
    const ConvDesc& desc = tiles_.front();
    const ConvGeometry& g = desc.geometry;
    order_ = {g.groups, desc.in_channels / g.groups, desc.out_channels / g.groups, g.kernel.volume()};
    if (backward_) std::swap(order_.sources, order_.targets);
    packed_ = Buffer<float>("petaflow::conv::weights[kokkos]", static_cast<std::size_t>(order_.elements()));
    zeros_ = Buffer<float>("petaflow::conv::zeros[kokkos]", static_cast<std::size_t>(order_.sources));
  }

  void refresh(const Context& context, const float* weights) override {
    launch(context, "petaflow::conv::refresh[kokkos]"_label, tiles_.front().weight_elements(),
           PackWeights<false>{order_, backward_, weights, packed_.data()});
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    if (tiles_[tile].type == DType::kF32) {
      run_typed<float>(context, tiles_[tile], args);
    } else {
      run_typed<Bf16>(context, tiles_[tile], args);
    }
  }

  std::string detail() const override { return fmt::format("kokkos gather {}x{}", lanes::kPoints, lanes::kBlock); }

 private:
  template <class T>
  void run_typed(const Context& context, const ConvDesc& desc, const ConvArgs& args) const {
    const ConvGeometry& g = desc.geometry;
    const Strides& xs = desc.x_strides;
    const Strides& ys = desc.y_strides;
    const auto axis = backward_ ? backward_axis : forward_axis;
    Gather<T> gather;
    gather.d = axis(desc.in.d, desc.out.d, g.kernel.d, g.stride.d, g.dilation.d, g.pad_begin.d, xs.d, ys.d);
    gather.h = axis(desc.in.h, desc.out.h, g.kernel.h, g.stride.h, g.dilation.h, g.pad_begin.h, xs.h, ys.h);
    gather.w = axis(desc.in.w, desc.out.w, g.kernel.w, g.stride.w, g.dilation.w, g.pad_begin.w, xs.w, ys.w);
    gather.order = order_;
    gather.samples = desc.n;
    gather.source_n = backward_ ? ys.n : xs.n;
    gather.target_n = backward_ ? xs.n : ys.n;
    gather.source = static_cast<const T*>(backward_ ? args.y : args.x);
    gather.target = static_cast<T*>(backward_ ? args.x : args.y);
    gather.weights = packed_.data();
    gather.zeros = reinterpret_cast<const T*>(zeros_.data());
    gather.merged = gather.w.divisor == 1 && gather.w.tap_scale == 1 && gather.w.source_stride == order_.sources;
    gather.segments = 1;
    const std::int64_t longest = ceil_div(gather.w.targets, gather.w.divisor * lanes::kPoints);
    if (!kOnHost || (desc.threads != 1 && gather.items() < 4 * desc.threads))
      gather.segments = std::max<std::int64_t>(1, longest);
    launch(context, desc.threads,
           backward_ ? "petaflow::conv::backward_data[kokkos]"_label : "petaflow::conv::forward[kokkos]"_label,
           gather.items(), gather);
  }

  bool backward_;
  std::vector<ConvDesc> tiles_;
  PackedOrder order_;
  Buffer<float> packed_, zeros_;
};

class OuterKernel final : public ConvKernel {
 public:
  explicit OuterKernel(std::span<const ConvDesc> tiles) : tiles_(tiles.begin(), tiles.end()) {
    const ConvDesc& desc = tiles_.front();
    const ConvGeometry& g = desc.geometry;
    order_ = {g.groups, desc.in_channels / g.groups, desc.out_channels / g.groups, g.kernel.volume()};
  }

  void refresh(const Context&, const float*) override {}

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    if (tiles_[tile].type == DType::kF32) {
      run_typed<float>(context, tiles_[tile], args);
    } else {
      run_typed<Bf16>(context, tiles_[tile], args);
    }
  }

  std::size_t scratch_bytes() const override {
    std::int64_t elements = 0;
    for (const ConvDesc& desc : tiles_) {
      const auto outer = split<float>(desc);
      elements = std::max(elements, part_elements(outer) + outer.parts * outer.shares * outer.copied_elements());
    }
    return static_cast<std::size_t>(elements) * sizeof(float);
  }

  std::int64_t gradient_elements() const override { return order_.elements(); }

  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    launch(context, "petaflow::conv::unpack_gradient[kokkos]"_label, tiles_.front().weight_elements(),
           PackWeights<true>{order_, false, sum, dw});
  }

  std::string detail() const override { return fmt::format("kokkos outer {}x{}", lanes::kPoints, lanes::kBlock); }

 private:
  /// Elements of the sums of all parts, where there are several.
  template <class T>
  std::int64_t part_elements(const Outer<T>& outer) const {
    return outer.parts == 1 ? 0 : outer.parts * order_.elements();
  }
  /// How the work of a tile is cut: into as many parts of the rows as kPartBytes holds sums for, then by pieces of the
  /// gradient. On the host each thread has as many parts as keep each at kChunksInF32 chunks or fewer: a part is summed
  /// in f32.
  template <class T>
  Outer<T> split(const ConvDesc& desc) const {
    constexpr std::int64_t kPartBytes = std::int64_t{64} << 20;
    Outer<T> outer;
    outer.desc = desc;
    outer.order = order_;
    outer.rows_per_chunk = std::max<std::int64_t>(1, outer.wanted_pixels() / std::max<std::int64_t>(1, desc.out.w));
    constexpr std::int64_t kChunksInF32 = 32;
    const std::int64_t threads = desc.threads;
    const std::int64_t tasks = kOnHost ? threads * ceil_div(outer.chunks(), threads * kChunksInF32)
                                       : std::max<std::int64_t>(outer.pieces(), 65536);
    const std::int64_t room = kPartBytes / (order_.elements() * static_cast<std::int64_t>(sizeof(float)));
    outer.shares = kOnHost ? 1 : outer.pieces();
    outer.parts =
        std::clamp<std::int64_t>(std::min(tasks / outer.shares, room), 1, std::max<std::int64_t>(1, outer.chunks()));
    outer.shares = std::clamp<std::int64_t>(ceil_div(tasks, outer.parts), 1, outer.pieces());
    return outer;
  }

  template <class T>
  void run_typed(const Context& context, const ConvDesc& desc, const ConvArgs& args) const {
    Outer<T> outer = split<T>(desc);
    outer.x = static_cast<const T*>(args.x);
    outer.dy = static_cast<const T*>(args.y);
    auto* const scratch = reinterpret_cast<float*>(args.scratch);
    outer.sum = outer.parts == 1 ? args.sum : scratch;
    outer.copies = scratch + part_elements(outer);
    launch(context, desc.threads, "petaflow::conv::backward_weights[kokkos]"_label, outer.parts * outer.shares, outer);
    if (outer.parts > 1) {
      launch(context, desc.threads, "petaflow::conv::add_parts[kokkos]"_label, order_.elements(),
             portable::AddParts{outer.parts, order_.elements(), outer.sum, args.sum});
    }
  }

  std::vector<ConvDesc> tiles_;
  PackedOrder order_;
};

std::string why_not_kokkos(Pass, std::span<const ConvDesc>) { return {}; }

std::unique_ptr<ConvKernel> make(Pass pass, std::span<const ConvDesc> tiles) {
  if (pass == Pass::kBackwardWeights) return std::make_unique<OuterKernel>(tiles);
  return std::make_unique<GatherKernel>(pass, tiles);
}

}  // namespace

extern const ConvImpl kConvKokkos;
const ConvImpl kConvKokkos = {"kokkos", why_not_kokkos, make};

}  // namespace petaflow
