// The portable convolution: every pass, geometry, stride and type; it never refuses.
#include <algorithm>

#include "base/element.hpp"
#include "base/error.hpp"
#include "kernels/conv_outer.hpp"
#include "kernels/cuts.hpp"
#include "kernels/launch.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow {
namespace {

using portable::Gather;
using portable::Outer;
using portable::PackedOrder;
using portable::PackWeights;

template <class T>
using Buffer = Kokkos::View<T*, MemorySpace>;

class GatherKernel final : public ConvKernel {
 public:
  GatherKernel(Pass pass, std::span<const ConvDesc> tiles)
      : backward_(pass == Pass::kBackwardData), tiles_(tiles.begin(), tiles.end()) {
    const ConvDesc& desc = tiles_.front();
    const ConvGeometry& g = desc.geometry;
    order_ = {g.groups, desc.in_channels / g.groups, desc.out_channels / g.groups, g.kernel.volume()};
    if (backward_) std::swap(order_.sources, order_.targets);
    zeros_ = Buffer<float>("petaflow::conv::zeros[kokkos]", static_cast<std::size_t>(order_.sources));
  }

  std::size_t packed_bytes() const override { return static_cast<std::size_t>(order_.elements()) * sizeof(float); }

  void pack(const Context& context, const float* weights, std::byte* packed) const override {
    pack_weights(context, "petaflow::conv::pack[kokkos]"_label, order_, backward_, tiles_.front().weight_elements(),
                 weights, packed);
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    with_element(tiles_[tile].type, [&]<class T>(T) { run_typed<T>(context, tiles_[tile], args); });
  }

  std::string detail() const override { return fmt::format("kokkos gather {}x{}", lanes::kPoints, lanes::kBlock); }

 private:
  template <class T>
  void run_typed(const Context& context, const ConvDesc& desc, const ConvArgs& args) const {
    const portable::Axes axes(desc, backward_);
    const Gather<T> gather{
        .axes = axes,
        .order = order_,
        .segments = axes.segments(axes.rows() * order_.groups * order_.blocks(), desc.threads),
        .merged = axes.w.divisor == 1 && axes.w.tap_scale == 1 && axes.w.source_stride == order_.sources,
        .source = static_cast<const T*>(backward_ ? args.y : args.x),
        .target = static_cast<T*>(backward_ ? args.x : args.y),
        .weights = reinterpret_cast<const float*>(args.weights),
        .zeros = reinterpret_cast<const T*>(zeros_.data())};
    launch(context, desc.threads,
           backward_ ? "petaflow::conv::backward_data[kokkos]"_label : "petaflow::conv::forward[kokkos]"_label,
           gather.items(), gather);
  }

  bool backward_;
  std::vector<ConvDesc> tiles_;
  PackedOrder order_;
  Buffer<float> zeros_;
};

class OuterKernel final : public ConvKernel {
 public:
  explicit OuterKernel(std::span<const ConvDesc> tiles) : tiles_(tiles.begin(), tiles.end()) {
    const ConvDesc& desc = tiles_.front();
    const ConvGeometry& g = desc.geometry;
    order_ = {g.groups, desc.in_channels / g.groups, desc.out_channels / g.groups, g.kernel.volume()};
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    with_element(tiles_[tile].type, [&]<class T>(T) { run_typed<T>(context, tiles_[tile], args); });
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
    const std::int64_t tasks = cuts_for_host() ? threads * ceil_div(outer.chunks(), threads * kChunksInF32)
                                               : std::max<std::int64_t>(outer.pieces(), 65536);
    const std::int64_t room = kPartBytes / (order_.elements() * static_cast<std::int64_t>(sizeof(float)));
    outer.shares = cuts_for_host() ? 1 : outer.pieces();
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
