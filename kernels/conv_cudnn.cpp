// Convolution by cuDNN's engines (cuDNN 9, "Graph API"), on channels-last operands.
#include <algorithm>
#include <mutex>
#include <optional>

#include "base/element.hpp"
#include "base/error.hpp"
#include "base/scratch.hpp"
#include "kernels/describe_cudnn.hpp"
#include "kernels/execution_cudnn.hpp"
#include "kernels/launch.hpp"
#include "kernels/plans_cudnn.hpp"

namespace petaflow {
namespace cudnn {
namespace {

// ---- Operands ----

/// A pass as cuDNN's engines take it.
struct Fitted {
  ConvDesc desc;
  /// Operands that are copied, with channels of zeros: engines of bf16 want channels by eight.
  bool copies_x = false, copies_y = false;
  /// So many neighbours along W count as one pixel with as many times the channels, in place: tensor cores are wide.
  std::int64_t fold = 1;
};

// Channels of a copied operand come in so many: 16 bytes of bf16, which an engine reads at once.
constexpr std::int64_t kUnit = 8;

/// The pass with copies of these operands.
Fitted with_copies(const ConvDesc& desc, bool copies_x, bool copies_y) {
  Fitted fitted{desc, copies_x, copies_y};
  const auto copy = [](std::int64_t& channels, const Extent& extent, Strides& strides, std::int64_t& begin) {
    channels = (channels + kUnit - 1) / kUnit * kUnit;
    strides = Strides::of(extent, channels);
    begin = 0;
  };
  if (copies_x) copy(fitted.desc.in_channels, desc.in, fitted.desc.x_strides, fitted.desc.x_channel);
  if (copies_y) copy(fitted.desc.out_channels, desc.out, fitted.desc.y_strides, fitted.desc.y_channel);
  return fitted;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/// Neighbours to fold in this pass, by times on an H200: of first layers 4 -> 32 channels on 128^3 forward takes 4.4 ms
/// instead of 8.7, 3 -> 128 on 224^2 1.4 instead of 1.9, but no other pass is faster; of 32 -> 64 channels on 64^3 the
/// gradient of the weights 1.2 instead of 2.5.  1: none.
std::int64_t fold_of(Pass pass, const ConvDesc& desc) {
  if (pass == Pass::kForward && desc.in_channels <= 4) return desc.in_channels < 3 ? 16 : 8;
  return pass == Pass::kBackwardWeights && desc.in_channels > 16 && desc.in_channels <= 32 ? 2 : 1;
}

/// Nothing where the geometry has no such form.  The weights become (fold out_channels, taps, fold in_channels), most
/// of them zeros.
std::optional<Fitted> folded(const ConvDesc& desc, std::int64_t fold) {
  const ConvGeometry& g = desc.geometry;
  if (fold == 1 || desc.in_channels * fold % kUnit != 0 || desc.in.w % fold != 0 || g.kernel.w == 1 ||
      g.stride.w != 1 || g.dilation.w != 1 || desc.in.w != desc.out.w || desc.x_strides.w != desc.in_channels ||
      desc.y_strides.w != desc.out_channels)
    return std::nullopt;
  Fitted fitted{desc};
  fitted.fold = fold;
  ConvDesc& f = fitted.desc;
  f.in_channels *= fold, f.out_channels *= fold;
  f.in.w /= fold, f.out.w /= fold;
  f.x_strides.w = f.in_channels, f.y_strides.w = f.out_channels;
  // y at fold W + p takes x at fold W + p - pad + tap, of the pixel W + floor((p - pad + tap) / fold).
  f.geometry.pad_begin.w = -floor_div(-g.pad_begin.w, fold);
  f.geometry.pad_end.w = floor_div(fold - 1 - g.pad_begin.w + g.kernel.w - 1, fold);
  f.geometry.kernel.w = f.geometry.pad_begin.w + f.geometry.pad_end.w + 1;
  return fitted;
}

/// The pass as it is where an engine takes it so, else with as few copies as one takes; what is written stays in its
/// place.
Fitted fit(Pass pass, const ConvDesc& desc) {
  const auto taken = [&](const Fitted& fitted) {
    return !begins_unaligned(fitted.desc) && plan_of(pass, fitted.desc).refusal.empty();
  };
  const Fitted as_it_is{desc};
  if (desc.type == DType::kF32 || desc.geometry.groups != 1) return as_it_is;
  if (const auto fitted = folded(desc, fold_of(pass, desc)); fitted && taken(*fitted)) return *fitted;
  if (taken(as_it_is)) return as_it_is;
  const bool reads_x = pass != Pass::kBackwardData, reads_y = pass != Pass::kForward;
  for (const auto& [x, y] : {std::pair(true, false), std::pair(false, true), std::pair(true, true)}) {
    if ((x && !reads_x) || (y && !reads_y)) continue;
    if (const Fitted fitted = with_copies(desc, x, y); taken(fitted)) return fitted;
  }
  return as_it_is;
}

/// (pixels, channels) of a strided operand -> the same, one behind the other, with channels of zeros; an item is kUnit
/// channels of a pixel.
struct CopyOperand {
  Extent extent;
  Strides strides;
  std::int64_t channels, units;  // units: of a pixel of the copy
  const std::uint16_t* from;     // bf16 or fp16, whose zeros are the same bits
  std::uint16_t* to;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t unit = item % units, pixel = item / units, row = pixel / extent.w, plane = row / extent.h;
    const std::uint16_t* x = from + plane / extent.d * strides.n + plane % extent.d * strides.d +
                             row % extent.h * strides.h + pixel % extent.w * strides.w;
    for (std::int64_t c = unit * kUnit; c < (unit + 1) * kUnit; ++c) {
      to[pixel * units * kUnit + c] = c < channels ? x[c] : std::uint16_t{0};
    }
  }
};

// ---- Weights ----

/// PyTorch's order (out, in / groups, taps) beside that of the fitted pass, (out, taps, in / groups), where channels of
/// zeros may have joined and neighbours along W be folded.  Taps along W apart from the others.
struct Order {
  std::int64_t outs, depth, lines, taps;  // lines: taps along D and H
  std::int64_t fitted_depth, fitted_taps, fold, pad, fitted_pad;

  Order(const ConvDesc& desc, const Fitted& fitted)
      : outs(desc.out_channels),
        depth(desc.in_channels / desc.geometry.groups),
        lines(desc.geometry.kernel.d * desc.geometry.kernel.h),
        taps(desc.geometry.kernel.w),
        fitted_depth(fitted.desc.in_channels / desc.geometry.groups),
        fitted_taps(fitted.desc.geometry.kernel.w),
        fold(fitted.fold),
        pad(desc.geometry.pad_begin.w),
        fitted_pad(fitted.desc.geometry.pad_begin.w) {}
};
/// Items: elements of the fitted order.
template <class T>
struct Pack {
  Order order;
  const float* from;
  T* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    std::int64_t channel = i % order.fitted_depth, tap = i / order.fitted_depth % order.fitted_taps,
                 out = i / order.fitted_depth / order.fitted_taps;
    const std::int64_t line = out % order.lines;
    out /= order.lines;
    if (order.fold > 1) {
      tap = order.fold * (tap - order.fitted_pad) + channel / order.depth - out / order.outs + order.pad;
      channel %= order.depth, out %= order.outs;
    }
    const bool there = channel < order.depth && out < order.outs && tap >= 0 && tap < order.taps;
    const std::int64_t at = ((out * order.depth + channel) * order.lines + line) * order.taps + tap;
    to[i] = static_cast<T>(there ? from[at] : 0.0F);
  }
};
/// Items: elements of PyTorch's order.
struct Unpack {
  Order order;
  const float* from;
  float* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t tap = i % order.taps, line = i / order.taps % order.lines,
                       channel = i / order.taps / order.lines % order.depth,
                       out = i / order.taps / order.lines / order.depth;
    const auto at = [&](std::int64_t fitted_out, std::int64_t fitted_tap, std::int64_t fitted_channel) {
      return from[((fitted_out * order.lines + line) * order.fitted_taps + fitted_tap) * order.fitted_depth +
                  fitted_channel];
    };
    if (order.fold == 1) {
      to[i] = at(out, tap, channel);
      return;
    }
    float sum = 0;
    for (std::int64_t p = 0; p < order.fold; ++p) {  // of y in a folded pixel
      const std::int64_t x = p - order.pad + tap + order.fold * order.fitted_pad;
      sum += at(p * order.outs + out, x / order.fold, x % order.fold * order.depth + channel);
    }
    to[i] = sum;
  }
};
template <class T>
struct AddPart {
  const T* part;
  float* sum;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { sum[i] += static_cast<float>(part[i]); }
};

// `why_not` asks for a plan, `make` takes it, and layers alike share it.
struct Plans {
  std::mutex mutex;
  std::string device, why_none;  // the properties of the device
  struct Made {
    Convolution convolution;
    std::int64_t place;
    std::unique_ptr<const Plan> plan;
  };
  std::vector<Made> made;
};
Plans& all_plans() {
  static Plans plans;
  return plans;
}

class Kernel final : public ConvKernel {
 public:
  Kernel(Pass pass, std::span<const ConvDesc> tiles, std::int64_t place)
      : pass_(pass), desc_(tiles.front()), order_(desc_, fit(pass, desc_)) {
    std::int64_t workspace = 0, x = 0, y = 0;
    for (const ConvDesc& tile : tiles) {
      const Fitted fitted = fit(pass, tile);
      tiles_.push_back({tile, fitted, Execution(plan_of(pass, fitted.desc, place))});
      workspace = std::max(workspace, tiles_.back().execution.workspace());
      if (fitted.copies_x) x = std::max(x, tile.n * tile.in.volume() * fitted.desc.in_channels);
      if (fitted.copies_y) y = std::max(y, tile.n * tile.out.volume() * fitted.desc.out_channels);
    }
    const Fitted& first = tiles_.front().fitted;
    elements_ = first.desc.weight_elements();
    detail_ = fitted_plan_of(pass, desc_, place).name;
    if (pass == Pass::kBackwardWeights) part_ = layout_.add<float>(elements_);  // or as many of 16 bits
    x_ = layout_.add<std::uint16_t>(x), y_ = layout_.add<std::uint16_t>(y);
    workspace_ = layout_.add<std::byte>(workspace + kAlignment);
  }

  std::size_t packed_bytes() const override {
    if (pass_ == Pass::kBackwardWeights) return 0;
    return static_cast<std::size_t>(elements_) * size_of(desc_.type);
  }

  void pack(const Context& context, const float* weights, std::byte* packed) const override {
    with_element(desc_.type, [&]<class T>(T) { pack_as<T>(context, weights, packed); });
  }

  void run(const Context& context, std::size_t tile, const ConvArgs& args) override {
    const bool sums = pass_ == Pass::kBackwardWeights;
    const auto workspace = reinterpret_cast<std::uintptr_t>(args.scratch + workspace_);
    std::byte* const part = args.scratch + part_;
    const Tile& own = tiles_[tile];
    const ConvDesc &desc = own.desc, &fitted = own.fitted.desc;
    void* x = args.x;
    void* y = args.y;
    if (own.fitted.copies_x)
      x = copy(context, desc.n, desc.in, desc.x_strides, desc.in_channels, fitted.in_channels, x, args.scratch + x_);
    if (own.fitted.copies_y)
      y = copy(context, desc.n, desc.out, desc.y_strides, desc.out_channels, fitted.out_channels, y, args.scratch + y_);
    own.execution.run(context.space.cuda_stream(), x,
                      sums ? static_cast<void*>(part) : const_cast<std::byte*>(args.weights), y,
                      reinterpret_cast<void*>((workspace + kAlignment - 1) / kAlignment * kAlignment));
    if (sums) with_element(desc_.type, [&]<class T>(T) { add<T>(context, part, args.sum); });
  }

  std::size_t scratch_bytes() const override { return layout_.bytes(); }
  std::int64_t gradient_elements() const override { return pass_ == Pass::kBackwardWeights ? elements_ : 0; }

  void unpack_gradient(const Context& context, const float* sum, float* dw) override {
    launch(context, "petaflow::conv::unpack_gradient[cudnn]"_label, desc_.weight_elements(), Unpack{order_, sum, dw});
  }

  std::string detail() const override { return detail_; }

 private:
  static constexpr std::uintptr_t kAlignment = 256;  // of workspaces

  template <class T>
  void pack_as(const Context& context, const float* weights, std::byte* packed) const {
    launch(context, "petaflow::conv::pack[cudnn]"_label, elements_,
           Pack<T>{order_, weights, reinterpret_cast<T*>(packed)});
  }

  template <class T>
  void add(const Context& context, const std::byte* part, float* sum) const {
    launch(context, "petaflow::conv::add_part[cudnn]"_label, elements_,
           AddPart<T>{reinterpret_cast<const T*>(part), sum});
  }

  static void* copy(const Context& context, std::int64_t n, const Extent& extent, const Strides& strides,
                    std::int64_t channels, std::int64_t fitted_channels, const void* from, std::byte* to) {
    const std::int64_t units = fitted_channels / kUnit;
    launch(context, "petaflow::conv::copy_operand[cudnn]"_label, n * extent.volume() * units,
           CopyOperand{extent, strides, channels, units, static_cast<const std::uint16_t*>(from),
                       reinterpret_cast<std::uint16_t*>(to)});
    return to;
  }

  struct Tile {
    ConvDesc desc;
    Fitted fitted;
    Execution execution;
  };
  Pass pass_;
  ConvDesc desc_;  // of the first tile: weights and type are those of all
  Order order_;
  std::int64_t elements_ = 0;  // of the weights in cuDNN's order
  std::vector<Tile> tiles_;
  ScratchLayout layout_;
  std::size_t part_ = 0, x_ = 0, y_ = 0,
              workspace_ = 0;  // in the scratch: a tile's gradient, copies, what cuDNN asks for
  std::string detail_;
};

template <std::int64_t kPlace>
std::string why_not(Pass pass, std::span<const ConvDesc> tiles) {
  for (const ConvDesc& tile : tiles) {
    const Fitted fitted = fit(pass, tile);
    if (begins_unaligned(fitted.desc)) return "a slice whose pixels begin at no multiples of 16 bytes";
    if (const Plan& plan = plan_of(pass, fitted.desc, kPlace); !plan.refusal.empty()) return plan.refusal;
  }
  return {};
}

template <std::int64_t kPlace>
std::unique_ptr<ConvKernel> make(Pass pass, std::span<const ConvDesc> tiles) {
  return std::make_unique<Kernel>(pass, tiles, kPlace);
}

}  // namespace

void plan_for(const Card& card) {
  Plans& plans = all_plans();
  const std::lock_guard lock(plans.mutex);
  PETAFLOW_REQUIRE(plans.made.empty(), "plans were made for another GPU");
  need_driver();
  plans.device = properties(card);
}

const Plan& plan_of(Pass pass, const ConvDesc& desc, std::int64_t place) {
  Plans& plans = all_plans();
  const std::lock_guard lock(plans.mutex);
  if (plans.device.empty() && plans.why_none.empty()) plans.device = device_properties(plans.why_none);
  const Convolution convolution = describe(pass, desc);
  const auto found = std::ranges::find_if(
      plans.made, [&](const Plans::Made& made) { return made.place == place && made.convolution == convolution; });
  if (found != plans.made.end()) return *found->plan;
  Plan plan = plans.device.empty() ? Plan{.refusal = "no device: " + plans.why_none}
                                   : make_plan(convolution, plans.device, place);
  return *plans.made.emplace_back(convolution, place, std::make_unique<const Plan>(std::move(plan))).plan;
}

FittedPlan fitted_plan_of(Pass pass, const ConvDesc& desc, std::int64_t place) {
  const Fitted fitted = fit(pass, desc);
  const Plan& plan = plan_of(pass, fitted.desc, place);
  return {plan, fmt::format("cudnn {}{}{}{}", plan.engine, fitted.copies_x ? ", copy of x" : "",
                            fitted.copies_y ? ", copy of dy" : "",
                            fitted.fold > 1 ? fmt::format(", {} pixels folded", fitted.fold) : "")};
}

}  // namespace cudnn

// Plans behind the first: on an H200 that one took up to 4 times as long as the fastest.
extern const ConvImpl kConvCudnn, kConvCudnnSecond, kConvCudnnThird, kConvCudnnFourth;
const ConvImpl kConvCudnn = {"cudnn", cudnn::why_not<0>, cudnn::make<0>};
const ConvImpl kConvCudnnSecond = {"cudnn2", cudnn::why_not<1>, cudnn::make<1>, ConvScope::kAlternative};
const ConvImpl kConvCudnnThird = {"cudnn3", cudnn::why_not<2>, cudnn::make<2>, ConvScope::kAlternative};
const ConvImpl kConvCudnnFourth = {"cudnn4", cudnn::why_not<3>, cudnn::make<3>, ConvScope::kAlternative};

}  // namespace petaflow
