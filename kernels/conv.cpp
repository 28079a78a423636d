// The shape formula of windows, the list of convolutions and the choice among them.
#include "kernels/conv.hpp"

#include <algorithm>
#include <array>

#include <unistd.h>

#include "base/error.hpp"
#include "kernels/lanes.hpp"
#include "kernels/where.hpp"
#ifdef PETAFLOW_HAVE_CUDNN
#include "kernels/plans_cudnn.hpp"
#endif

namespace petaflow {

#ifdef PETAFLOW_HAVE_ONEDNN
bool onednn_uses_amx();
#endif

std::int64_t window_output(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                           std::int64_t pad_begin, std::int64_t pad_end) {
  const std::int64_t room = in + pad_begin + pad_end - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

Extent window_output(const Extent& in, const ConvGeometry& g) {
  return {window_output(in.d, g.kernel.d, g.stride.d, g.dilation.d, g.pad_begin.d, g.pad_end.d),
          window_output(in.h, g.kernel.h, g.stride.h, g.dilation.h, g.pad_begin.h, g.pad_end.h),
          window_output(in.w, g.kernel.w, g.stride.w, g.dilation.w, g.pad_begin.w, g.pad_end.w)};
}

namespace {

using Impls = std::vector<const ConvImpl*>;

// Whether a library multiplies bf16 on AMX tiles here.
bool library_uses_amx() {
#ifdef PETAFLOW_HAVE_ONEDNN
  return onednn_uses_amx();
#else
  return false;
#endif
}

// Whether gradients of weights in f32 are faster after their operands are reordered.  In tiles with neighbouring taps
// oneDNN's channels-last kernel is the faster one with an L1d cache of 48 KiB (Zen 5: 2 to 14 %), but not with 32 (Zen
// 4).
bool reordering_pays(const ConvDesc& like) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  static const bool small_cache = sysconf(_SC_LEVEL1_DCACHE_SIZE) < 48 * 1024;
#else
  static const bool small_cache = true;
#endif
  constexpr Extent kOne{1, 1, 1};
  return small_cache || like.threads != 1 || like.geometry.stride != kOne || like.geometry.dilation != kOne;
}

// Whether `kokkos` is the fastest implementation for gradients of weights in f32: with strides and many channels, where
// oneDNN's reach 42 to 67 % of the peak and it 74 % (Zen 4, 256 channels, 3 x 3 taps, stride 2).
bool kokkos_is_fastest(const ConvDesc& like) {
  constexpr Extent kOne{1, 1, 1};
  constexpr std::int64_t kMany = 128;
  return like.geometry.stride != kOne && like.geometry.groups == 1 && like.geometry.kernel != kOne &&
         std::min(like.in_channels, like.out_channels) >= kMany;
}

// Facts that the order of implementations depends on beside the pass.
struct Kind {
  bool rounded, split, reorders, strides;
};

}  // namespace

// The convolutions in order of preference, the first line of one counts: where it is compiled (the suffix of its file),
// its name, and for what it is listed.  Adding one takes its file and a line here.
// NOLINTBEGIN(readability-identifier-naming): constants of other files, declared where they are listed
static Impls list_impls(Pass pass, const Kind& kind) {
#define LIST(where, impl, listed)                                                            \
  PETAFLOW_IN_##where({                                                                      \
    extern const ConvImpl impl;                                                              \
    if ((listed) && std::ranges::find(list, &(impl)) == list.end()) list.push_back(&(impl)); \
  })
  const bool weights = pass == Pass::kBackwardWeights;
  [[maybe_unused]] const bool rounded_weights = weights && kind.rounded;
  [[maybe_unused]] const bool amx = kind.rounded && library_uses_amx();  // faster than what multiplies in vectors
  Impls list;
  LIST(ONEDNN, kConvSplit3, kind.split)
  LIST(ALL, kConvDepthwise, true)  // takes those layers alone, which are bound by memory
  LIST(CUDNN, kConvCudnn, true)
  LIST(CUDNN, kConvCudnnSecond, true)
  LIST(CUDNN, kConvCudnnThird, true)
  LIST(CUDNN, kConvCudnnFourth, true)
  LIST(AMX, kConvAmx, rounded_weights)
  LIST(ONEDNN, kConvOnednn, amx)
  LIST(ONEDNN, kConvOnednnBlocked, amx && weights)
  LIST(HOST, kConvWinograd, true)
  LIST(HOST, kConvDots, rounded_weights)
  LIST(HOST, kConvNarrow, !rounded_weights)  // slower than oneDNN there
  LIST(HOST, kConvColumns, !weights)
  LIST(HOST, kConvTaps, weights)
  LIST(ALL, kConvKokkos, weights && kind.strides)
  LIST(ONEDNN, kConvOnednnBlocked, weights && kind.reorders)
  LIST(ONEDNN, kConvOnednn, true)
  LIST(ONEDNN, kConvOnednnBlocked, weights)
  LIST(HOST, kConvNarrow, true)
  LIST(ALL, kConvKokkos, true)
#undef LIST
  return list;
}
// NOLINTEND(readability-identifier-naming)

std::span<const ConvImpl* const> conv_impls(Pass pass, const ConvDesc& like) {
  using Lists = std::array<Impls, 3>;
  const auto make = [](const Kind& kind) {
    return Lists{list_impls(Pass::kForward, kind), list_impls(Pass::kBackwardData, kind),
                 list_impls(Pass::kBackwardWeights, kind)};
  };
  static const Lists rounded = make({true, false, false, false});
  static const auto f32 = [&] {
    std::array<Lists, 8> lists;
    for (std::size_t i = 0; i < lists.size(); ++i) lists[i] = make({false, (i & 4) != 0, (i & 2) != 0, (i & 1) != 0});
    return lists;
  }();
  const auto index = static_cast<std::size_t>(4 * (like.products == F32Products::kSplit3) + 2 * reordering_pays(like) +
                                              kokkos_is_fastest(like));
  return (is_rounded(like.type) ? rounded : f32[index])[static_cast<std::size_t>(pass)];
}

namespace {

// Each implementation of this build once.
const Impls& all_impls() {
  static const Impls all = [] {
    Impls impls;
    for (const Kind kind : {Kind{false, true, true, false}, Kind{true, false, false, false}}) {
      for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights}) {
        for (const ConvImpl* impl : list_impls(pass, kind)) {
          if (std::ranges::find(impls, impl) == impls.end()) impls.push_back(impl);
        }
      }
    }
    return impls;
  }();
  return all;
}

// Implementations that may compute the pass, in the order in which they are asked.
Impls candidates(Pass pass, const ConvDesc& like, const ConvRequest& request) {
  using Rule = ConvRequest::Rule;
  PETAFLOW_REQUIRE(request.rule != Rule::kTune, "a convolution was to be tuned and is made before it was");
  if (request.rule == Rule::kOnly) return {request.impl};
  const std::span<const ConvImpl* const> list = conv_impls(pass, like);
  Impls impls(list.begin(), list.end());
  std::erase_if(impls, [&](const ConvImpl* impl) {
    return impl->scope == ConvScope::kAlternative ||
           (request.rule == Rule::kDirect && impl->scope == ConvScope::kTransform);
  });
  if (request.rule == Rule::kPrefer) {
    std::erase(impls, request.impl);
    impls.insert(impls.begin(), request.impl);
  }
  return impls;
}

}  // namespace

const ConvImpl* find_conv(std::string_view name) {
  const auto found = std::ranges::find_if(all_impls(), [&](const ConvImpl* impl) { return impl->name == name; });
  return found == all_impls().end() ? nullptr : *found;
}

std::vector<std::pair<std::string, ConvRequest>> conv_requests() {
  using Rule = ConvRequest::Rule;
  std::vector<std::pair<std::string, ConvRequest>> words = {
      {"auto", {Rule::kAuto}}, {"direct", {Rule::kDirect}}, {"tune", {Rule::kTune}}};
  for (const ConvImpl* impl : all_impls()) words.push_back({impl->name, {Rule::kOnly, impl}});
  for (const ConvImpl* impl : all_impls())
    words.push_back({fmt::format("prefer:{}", impl->name), {Rule::kPrefer, impl}});
  return words;
}

std::string bf16_products() {
  return library_uses_amx() ? "AMX tiles" : lanes::kMultipliesPairs ? "AVX512_BF16" : "f32 arithmetic";
}

namespace {

// The implementation alone.
ConvChoice find_choice(Pass pass, std::span<const ConvDesc> tiles, const ConvRequest& request) {
  PETAFLOW_REQUIRE(!tiles.empty(), "a convolution is made for at least one tile");
  ConvChoice choice;
  for (const ConvImpl* impl : candidates(pass, tiles.front(), request)) {
    const std::string reason = impl->why_not(pass, tiles);
    if (reason.empty()) {
      choice.impl = impl;
      return choice;
    }
    if (request.rule == ConvRequest::Rule::kOnly) {
      user_error("kernels.conv = \"{0}\" does not take its {1} pass: {2}; \"prefer:{0}\" leaves that to others",
                 impl->name, name_of(pass), reason);
    }
    if (impl->scope == ConvScope::kAny || impl == request.impl)
      choice.refusals.push_back(fmt::format("not {}: {}", impl->name, reason));
  }
  failure("no convolution accepts the {} pass", name_of(pass));
}

}  // namespace

ConvChoice choose_conv(Pass pass, std::span<const ConvDesc> tiles, const ConvRequest& request) {
  ConvChoice choice = find_choice(pass, tiles, request);
  choice.kernel = choice.impl->make(pass, tiles);
  return choice;
}

void plan_convs_for([[maybe_unused]] const Card& card) {
#ifdef PETAFLOW_HAVE_CUDNN
  cudnn::plan_for(card);
#else
  user_error("this program has no cuDNN, whose engines are asked for: build it for GPUs (docs/gpus.md)");
#endif
}

ConvPlan plan_conv(Pass pass, const ConvDesc& whole, const ConvRequest& request) {
  ConvChoice choice = find_choice(pass, {&whole, 1}, request);
  ConvPlan planned{choice.impl->name, 0, std::move(choice.refusals)};
#ifdef PETAFLOW_HAVE_CUDNN
  if (planned.engine == "cudnn") {
    const cudnn::FittedPlan fitted = cudnn::fitted_plan_of(pass, whole);
    planned.engine = fitted.name;
    planned.workspace_bytes = fitted.plan.workspace;
  }
#endif
  return planned;
}

// Tiles are cut for one implementation only: the first that has wishes, unless one before it takes the layer.
std::optional<TileWishes> tile_wishes(Pass pass, const ConvDesc& whole, const ConvRequest& request) {
  const Impls impls = candidates(pass, whole, request);
  const auto wishing = std::ranges::find_if(impls, [](const ConvImpl* impl) { return impl->wishes != nullptr; });
  const auto accepts = [&](const ConvImpl* impl) { return impl->why_not(pass, {&whole, 1}).empty(); };
  if (wishing == impls.end() || std::any_of(impls.begin(), wishing, accepts)) return std::nullopt;
  return (*wishing)->wishes(pass, whole);
}

}  // namespace petaflow
