// The shape formula of windows and the choice among the convolutions of this build.
#include "kernels/conv.hpp"

#include <array>

#include <unistd.h>

#include "base/error.hpp"
#include "kernels/lanes.hpp"

namespace petaflow {

#ifdef PETAFLOW_HAVE_ONEDNN
extern const ConvImpl kConvOnednn, kConvOnednnBlocked, kConvSplit;
bool onednn_multiplies_tiles();
#endif
#ifdef PETAFLOW_HAVE_WINOGRAD
extern const ConvImpl kConvWinograd;
#else
BoxRows winograd_rows(Pass, const ConvDesc&) { return {}; }
#endif
#ifdef PETAFLOW_HAVE_NARROW
extern const ConvImpl kConvNarrow;
#endif
#ifdef PETAFLOW_HAVE_TILES
extern const ConvImpl kConvTiles, kConvDots;
#endif
extern const ConvImpl kConvKokkos;

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

bool has_tiles() {
#ifdef PETAFLOW_HAVE_ONEDNN
  return onednn_multiplies_tiles();
#else
  return false;
#endif
}

// Whether gradients of weights in f32 are faster after their operands are reordered.  In boxes with neighbouring taps
// oneDNN's channels-last kernel is the faster one with a first cache of 48 KiB (Zen 5: 2 to 14 %), but not with 32 (Zen
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

struct Kind {
  DType type;
  bool split, reorders;
};

std::vector<ConvImpl> list_impls(Pass pass, [[maybe_unused]] const Kind& kind) {
  const bool weights_in_bf16 = pass == Pass::kBackwardWeights && kind.type == DType::kBf16,
             has_fast_library = kind.type == DType::kBf16 && has_tiles();  // our own ones below multiply vectors
  std::vector<ConvImpl> result, library, narrow;
  const auto append = [&](const std::vector<ConvImpl>& impls) {
    result.insert(result.end(), impls.begin(), impls.end());
  };
#ifdef PETAFLOW_HAVE_ONEDNN
  library.push_back(kConvOnednn);
  if (pass == Pass::kBackwardWeights) library.insert(library.begin() + !kind.reorders, kConvOnednnBlocked);
  if (kind.split) result.push_back(kConvSplit);
#endif
#ifdef PETAFLOW_HAVE_NARROW
  narrow.push_back(kConvNarrow);
#endif
#ifdef PETAFLOW_HAVE_TILES
  if (weights_in_bf16) result.push_back(kConvTiles);
#endif
  if (has_fast_library) append(library);
#ifdef PETAFLOW_HAVE_WINOGRAD
  result.push_back(kConvWinograd);
#endif
#ifdef PETAFLOW_HAVE_TILES
  if (weights_in_bf16) result.push_back(kConvDots);
#endif
  if (!weights_in_bf16) append(narrow);
  if (!has_fast_library) append(library);
  if (weights_in_bf16) append(narrow);  // slower than oneDNN there
  result.push_back(kConvKokkos);
  return result;
}

}  // namespace

std::span<const ConvImpl> conv_impls(Pass pass, const ConvDesc& like) {
  using Lists = std::array<std::vector<ConvImpl>, 3>;
  const auto make = [](const Kind& kind) {
    return Lists{list_impls(Pass::kForward, kind), list_impls(Pass::kBackwardData, kind),
                 list_impls(Pass::kBackwardWeights, kind)};
  };
  static const Lists bf16 = make({DType::kBf16, false, false});
  static const std::array<Lists, 4> f32 = {make({DType::kF32, false, false}), make({DType::kF32, false, true}),
                                           make({DType::kF32, true, false}), make({DType::kF32, true, true})};
  const auto index = static_cast<std::size_t>(2 * like.split + reordering_pays(like));
  return (like.type == DType::kBf16 ? bf16 : f32[index])[static_cast<std::size_t>(pass)];
}

std::string bf16_products() {
  return has_tiles() ? "AMX tiles" : lanes::kMultipliesPairs ? "AVX512_BF16" : "f32 arithmetic";
}

ConvChoice choose_conv(Pass pass, std::span<const ConvDesc> boxes, const std::string& forced) {
  PETAFLOW_REQUIRE(!boxes.empty(), "a convolution is made for at least one box");
  ConvChoice choice;
  std::string known = "\"auto\", \"direct\", \"tune\"";
  for (const ConvImpl& impl : conv_impls(pass, boxes.front())) {
    known += fmt::format(", \"{}\"", impl.name);
    const bool transforms = impl.scope == ConvScope::kTransform;
    if (forced != "auto" && !(forced == "direct" && !transforms) && forced != impl.name) continue;
    const std::string reason = impl.why_not(pass, boxes);
    if (reason.empty()) {
      choice.name = impl.name;
      choice.kernel = impl.make(pass, boxes);
      return choice;
    }
    if (impl.scope == ConvScope::kAny || forced == impl.name)
      choice.refusals.push_back(fmt::format("not {}: {}", impl.name, reason));
  }
  if (!choice.refusals.empty()) {
    user_error("kernels.conv = \"{}\" does not accept this layer in the {} pass: {}; \"auto\" takes what accepts it",
               forced, name_of(pass), choice.refusals.back());
  }
  user_error("kernels.conv = \"{}\": this build has no such convolution for the {} pass; known: {}", forced,
             name_of(pass), known);
}

}  // namespace petaflow
